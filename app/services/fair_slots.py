"""A few slots that tenants and their keys take in turn, so that nobody holds anybody else up."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager, suppress
from itertools import count

from common.owner import Owner

NEVER = -1


class FairSlots:
    """Slots for tasks that wait for each other; it is used on the event loop only.

    Of several tenants whose tasks wait, that whose last turn was longest ago is next, and of its
    keys likewise. One key gets all slots but one, unless there is only one.

    Args:
        num_slots: how many tasks run at the same time.
    """

    def __init__(self, num_slots: int) -> None:
        self._num_free = num_slots
        self._per_key = max(1, num_slots - 1)
        self._turns = count()
        self._last_turn: dict[Hashable, int] = {}  # of each tenant and each key that ever had one
        self._held: Counter[Owner] = Counter()
        self._waiting: dict[Owner, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def slot(self, owner: Owner) -> AsyncIterator[None]:
        """Hold a slot while the block runs, after waiting for one."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        self._give_turns()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(owner, turn)
            else:  # the turn came at the same moment
                self._give_back(owner)
            raise
        try:
            yield
        finally:
            self._give_back(owner)

    def _give_turns(self) -> None:
        while self._num_free:
            in_line = [one for one in self._waiting if self._held[one] < self._per_key]
            if not in_line:
                return
            owner = min(in_line, key=self._turn)
            turn = self._waiting[owner][0]
            self._leave(owner, turn)
            if turn.cancelled():  # its task has not noticed yet
                continue
            self._num_free -= 1
            self._held[owner] += 1
            self._last_turn[owner] = self._last_turn[owner.tenant] = next(self._turns)
            turn.set_result(None)

    def _turn(self, owner: Owner) -> tuple[int, int]:
        return self._last_turn.get(owner.tenant, NEVER), self._last_turn.get(owner, NEVER)

    def _give_back(self, owner: Owner) -> None:
        self._num_free += 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        self._give_turns()

    def _leave(self, owner: Owner, turn: "asyncio.Future[None]") -> None:
        turns = self._waiting.get(owner, deque())
        with suppress(ValueError):
            turns.remove(turn)
        if not turns:
            self._waiting.pop(owner, None)
