"""A few slots that API keys take in turn, so that one with many tasks holds nobody else up."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

Waiters = deque["asyncio.Future[None]"]


class FairSlots:
    """Slots for tasks that wait for each other; it is used on the event loop only.

    Of several keys whose tasks wait, that whose turn was longest ago is next. One key gets all
    slots but one, unless there is only one.

    Args:
        num_slots: how many tasks run at the same time.
    """

    def __init__(self, num_slots: int) -> None:
        self._num_free = num_slots
        self._per_key = max(1, num_slots - 1)
        self._held: Counter[UUID] = Counter()
        self._waiting: OrderedDict[UUID, Waiters] = OrderedDict()

    @asynccontextmanager
    async def slot(self, key_id: UUID) -> AsyncIterator[None]:
        """Hold a slot while the block runs, after waiting for one."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key_id, deque()).append(turn)
        self._give_turns()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the turn came at the same moment
                self._give_back(key_id)
            else:
                self._leave(key_id, turn)
            raise
        try:
            yield
        finally:
            self._give_back(key_id)

    def _give_turns(self) -> None:
        """Give free slots to keys in turn; a key that got one goes to the end of the line."""
        for key_id in tuple(self._waiting):
            if not self._num_free:
                return
            if self._held[key_id] < self._per_key:
                self._num_free -= 1
                self._held[key_id] += 1
                turn = self._waiting[key_id].popleft()
                turn.set_result(None)
                self._waiting.move_to_end(key_id)
                self._forget_if_idle(key_id)

    def _give_back(self, key_id: UUID) -> None:
        self._num_free += 1
        self._held[key_id] -= 1
        if not self._held[key_id]:
            del self._held[key_id]
        self._give_turns()

    def _leave(self, key_id: UUID, turn: "asyncio.Future[None]") -> None:
        self._waiting[key_id].remove(turn)
        self._forget_if_idle(key_id)

    def _forget_if_idle(self, key_id: UUID) -> None:
        if not self._waiting[key_id]:
            del self._waiting[key_id]
