"""A few slots that API keys take in turn, so that one with many tasks holds nobody else up."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from uuid import UUID

NEVER = -1


class FairSlots:
    """Slots for tasks that wait for each other; it is used on the event loop only.

    Of several keys whose tasks wait, that whose last turn was longest ago is next. One key gets all
    slots but one, unless there is only one.

    Args:
        num_slots: how many tasks run at the same time.
    """

    def __init__(self, num_slots: int) -> None:
        self._num_free = num_slots
        self._per_key = max(1, num_slots - 1)
        self._turns = count()
        self._last_turn: dict[UUID, int] = {}  # of each key that ever had one
        self._held: Counter[UUID] = Counter()
        self._waiting: dict[UUID, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def slot(self, key_id: UUID) -> AsyncIterator[None]:
        """Hold a slot while the block runs, after waiting for one."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key_id, deque()).append(turn)
        self._give_turns()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(key_id, turn)
            else:  # the turn came at the same moment
                self._give_back(key_id)
            raise
        try:
            yield
        finally:
            self._give_back(key_id)

    def _give_turns(self) -> None:
        while self._num_free:
            in_line = [key for key in self._waiting if self._held[key] < self._per_key]
            if not in_line:
                return
            key_id = min(in_line, key=lambda key: self._last_turn.get(key, NEVER))
            turn = self._waiting[key_id][0]
            self._leave(key_id, turn)
            if turn.cancelled():  # its task has not noticed yet
                continue
            self._num_free -= 1
            self._held[key_id] += 1
            self._last_turn[key_id] = next(self._turns)
            turn.set_result(None)

    def _give_back(self, key_id: UUID) -> None:
        self._num_free += 1
        self._held[key_id] -= 1
        if not self._held[key_id]:
            del self._held[key_id]
        self._give_turns()

    def _leave(self, key_id: UUID, turn: "asyncio.Future[None]") -> None:
        turns = self._waiting.get(key_id, deque())
        with suppress(ValueError):
            turns.remove(turn)
        if not turns:
            self._waiting.pop(key_id, None)
