"""The questions that a server has accepted: a bounded number, cancellable throughout.

They are answered by the engine loop, which also decides whose turn it is.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from app.services.loop_mailbox import LoopMailbox
from app.services.running_mean import RunningMean
from common.errors import (
    Busy,
    CallerGone,
    LecternError,
    QuestionTimeout,
    ShuttingDown,
    TooManyQuestions,
)
from common.owner import Owner
from engine.serving.engine_loop import EngineLoop
from engine.serving.request import AnswerRequest

Item = TypeVar("Item")
STUCK_S = 30.0
UNMEASURED_S = 2.0
CANCEL_S = 2.0  # that the loop gets to stop what was cancelled
KEY_LEAVES = 8  # one key leaves one place in so many to others
TENANT_LEAVES = 16  # and one tenant, whatever keys it has, to other tenants
STOPPED = "The server stopped before the answer was complete."


class _End:
    """Marks the end of an answer's items."""


class PendingAnswer(Generic[Item]):
    """The answer of one accepted question: its items as they come, and the means to stop it.

    It is made on the event loop, and iterated there once. Items come from other threads.

    Args:
        document_id: the document that is asked about.
        owner: whose question it is.
        timeout_s: seconds from now to the last item.
        ended: called once, when all work on it has ended.
        mailbox: brings items into the event loop.
    """

    def __init__(
        self,
        document_id: Hashable,
        owner: Owner,
        timeout_s: float,
        ended: "Callable[[PendingAnswer[Any]], None]",
        mailbox: LoopMailbox,
    ) -> None:
        self.document_id = document_id
        self.owner = owner
        self._ended = ended
        self._accepted_s = time.monotonic()
        self._timeout_s = timeout_s
        self._started_s: float | None = None
        self._stop_error: LecternError | None = None
        self._mailbox = mailbox
        self._items: asyncio.Queue[Item | Exception | type[_End]] = asyncio.Queue()
        self._first: Item | Exception | type[_End] | None = None
        self._deadline: asyncio.TimerHandle | None = None  # while somebody waits for items

    @property
    def queue_ms(self) -> float:
        """Milliseconds that the question waited for a slot, until now if it still waits."""
        return 1000 * ((self._started_s or time.monotonic()) - self._accepted_s)

    @property
    def is_running(self) -> bool:
        """Whether the question has got its slot."""
        return self._started_s is not None

    def running_s(self) -> float:
        """Return the seconds since the question got its slot; 0 before that."""
        return 0.0 if self._started_s is None else time.monotonic() - self._started_s

    def is_cancelled(self) -> bool:
        """Return whether the work must stop; the engine asks before every forward pass."""
        return self._stop_error is not None or self._remaining_s() <= 0

    def cancel(self, error: LecternError | None = None) -> None:
        """Stop the work. The first call decides which error a caller that still waits gets."""
        if self._stop_error is None:
            self._stop_error = error or CallerGone("The caller has closed the connection.")
            self._emit(self._stop_error)

    def begin(self) -> None:
        """Take note that the question has got its slot."""
        self._started_s = time.monotonic()

    def put(self, item: Item) -> None:
        """Pass an item on."""
        self._emit(item)

    def end(self, error: Exception | None) -> None:
        """Pass the end on, or what ended the work; none of it goes on."""
        self._emit(self.reason(error) or _End)
        self._ended(self)

    def reason(self, error: Exception | None) -> Exception | None:
        """Return why the work ended: where it was cancelled, for what, whoever noticed it."""
        return self._stop_error or error if isinstance(error, CallerGone) else error

    async def wait_for_first_item(self, wait_s: float) -> None:
        """Wait for the first item, so that an error before it can still become an HTTP status.

        Args:
            wait_s: longest wait in seconds.
        Raises: the error that stopped the work before its first item.
        """
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    self._first = await self._next()
            if isinstance(self._first, Exception):
                raise self._first
        except BaseException:
            self._stop_waiting()
            raise

    async def __aiter__(self) -> AsyncIterator[Item]:
        """Yield the items. Raises: the error that stopped the work, or QuestionTimeout."""
        try:
            while True:
                item, self._first = self._first or await self._next(), None
                if item is _End:
                    return
                if isinstance(item, Exception):
                    raise item
                yield item  # type: ignore[misc]  # the other types were handled above
        finally:
            self._stop_waiting()

    async def _next(self) -> Item | Exception | type[_End]:
        if self._deadline is None:  # one for all items, as each timeout costs what an item does
            loop, remaining_s = self._mailbox.loop, max(0.0, self._remaining_s())
            self._deadline = loop.call_later(remaining_s, self._time_out)
        return await self._items.get()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def _time_out(self) -> None:
        self.cancel(QuestionTimeout(f"No answer within {self._timeout_s:g} seconds."))

    def _remaining_s(self) -> float:
        return self._accepted_s + self._timeout_s - time.monotonic()

    def _emit(self, item: Item | Exception | type[_End]) -> None:
        self._mailbox.put(self._items, item)


def finished_answer(
    document_id: Hashable, owner: Owner, items: Iterable[Item]
) -> PendingAnswer[Item]:
    """Return an answer that is known already, as if it had just been given."""
    mailbox = LoopMailbox(asyncio.get_running_loop())
    pending: PendingAnswer[Item] = PendingAnswer(
        document_id, owner, STUCK_S, lambda _: None, mailbox
    )
    for item in items:
        pending.put(item)
    pending.end(None)
    return pending


@dataclass(frozen=True)
class QueueLoad:
    """How many questions are being answered, how many wait, and how many slots there are."""

    running: int
    waiting: int
    slots: int


@dataclass(frozen=True)
class QuestionState:
    """A question that has not ended.

    Attributes:
        document_id: what it is about; None for the model alone.
        is_running: whether it has its slot.
        waited_ms, running_s: how long it waited for that, and has run since.
    """

    document_id: Hashable
    is_running: bool
    waited_ms: float
    running_s: float


MakeRequest = Callable[[PendingAnswer[Item]], AnswerRequest]


class QuestionQueue:
    """Accepts questions, hands them to the engine loop, and knows all that have not ended.

    Args:
        engine_loop: answers them; it is started and closed with the queue.
        queued: how many more questions may wait than are answered at the same time; further ones
            are refused. One key may have all places but one in eight, one tenant all but one in
            sixteen.
        timeout_s: seconds from the acceptance of a question to the last item of its answer.
    """

    def __init__(self, engine_loop: EngineLoop, *, queued: int, timeout_s: float) -> None:
        self._engine_loop = engine_loop
        self._num_slots = engine_loop.max_running
        self._num_places = self._num_slots + queued
        self._timeout_s = timeout_s
        self._changed = threading.Condition()
        self._pending: dict[PendingAnswer[Any], None] = {}  # in the order of their arrival
        self._places: Counter[Hashable] = Counter()
        self._running_time = RunningMean()
        self._draining_since_s: float | None = None
        self._mailbox: LoopMailbox | None = None

    def start(self) -> None:
        """Start the engine loop."""
        self._engine_loop.start()

    def submit(
        self, document_id: Hashable, owner: Owner, make_request: MakeRequest[Item]
    ) -> PendingAnswer[Item]:
        """Accept a question.

        Args:
            document_id: the document that is asked about.
            owner: whose question it is.
            make_request: what the engine loop is asked, given where the answer goes.
        Raises: TooManyQuestions if key or tenant have all places that they may have, Busy if all
            places are taken, ShuttingDown while the server stops.
        """
        with self._changed:
            if self.is_draining:
                raise ShuttingDown("The server is stopping; ask again in a moment.")
            self._check_room(owner)
            pending: PendingAnswer[Item] = PendingAnswer(
                document_id, owner, self._timeout_s, self._end, self._mailbox_of_loop()
            )
            self._pending[pending] = None
            self._places.update((owner, owner.tenant))
        self._engine_loop.submit(make_request(pending))
        return pending

    def cancel(self, pending: PendingAnswer[Any], error: LecternError | None = None) -> None:
        """Stop one question; if it waits, it leaves the queue at once.

        Args:
            error: what a caller that still waits gets.
        """
        pending.cancel(error)
        if not pending.is_running:
            self._forget(pending)
        self._engine_loop.wake()

    def document_ids(self) -> frozenset[Hashable]:
        """Return the documents that questions are about."""
        return frozenset(pending.document_id for pending in self._all_pending())

    def cancel_document(self, document_id: Hashable, error: LecternError) -> None:
        """Stop all questions about a document; their callers get `error`."""
        for pending in self._all_pending():
            if pending.document_id == document_id:
                self.cancel(pending, error)

    def cancel_running(self, error: LecternError) -> None:
        """Stop all questions, and go on accepting others; their callers get `error`."""
        for pending in self._all_pending():
            self.cancel(pending, error)

    def cancel_all(self) -> None:
        """Stop all questions; their callers are told that the server stops."""
        self.drain()
        for pending in self._all_pending():
            self.cancel(pending, ShuttingDown(STOPPED))

    def load(self) -> QueueLoad:
        """Count the questions that are being answered and those that wait."""
        pending = self._all_pending()
        running = sum(one.is_running for one in pending)
        return QueueLoad(running, len(pending) - running, self._num_slots)

    def questions(self) -> tuple[QuestionState, ...]:
        """Return the questions that have not ended, in the order of their arrival."""
        return tuple(
            QuestionState(one.document_id, one.is_running, one.queue_ms, one.running_s())
            for one in self._all_pending()
        )

    def problem(self) -> str | None:
        """Say why questions cannot be answered; None if they can."""
        longest_s = max((pending.running_s() for pending in self._all_pending()), default=0.0)
        if longest_s > self._timeout_s + STUCK_S:
            return f"A question has been worked on for {longest_s:.0f} seconds and does not end."
        return self._engine_loop.problem()

    def drain(self) -> None:
        """Refuse new questions, and go on with accepted ones. A signal handler may call this."""
        if self._draining_since_s is None:
            self._draining_since_s = time.monotonic()

    @property
    def is_draining(self) -> bool:
        """Whether the server is stopping."""
        return self._draining_since_s is not None

    def draining_s(self) -> float:
        """Return for how many seconds the server has been stopping; 0 if it is not."""
        since_s = self._draining_since_s
        return 0.0 if since_s is None else time.monotonic() - since_s

    def close(self, grace_s: float) -> None:
        """Stop the engine loop: waiting questions end at once, running ones get some time.

        Args:
            grace_s: seconds that running questions get.
        """
        self.drain()
        for pending in self._all_pending():
            if not pending.is_running:
                self.cancel(pending, ShuttingDown(STOPPED))
        with self._changed:
            self._changed.wait_for(lambda: not self._pending, timeout=grace_s)
        self.cancel_all()
        with self._changed:
            self._changed.wait_for(lambda: not self._pending, timeout=CANCEL_S)
        self._engine_loop.close()

    def _mailbox_of_loop(self) -> LoopMailbox:
        """The mailbox of the running event loop, which all of its answers share."""
        loop = asyncio.get_running_loop()
        if self._mailbox is None or self._mailbox.loop is not loop:
            self._mailbox = LoopMailbox(loop)
        return self._mailbox

    def _all_pending(self) -> tuple[PendingAnswer[Any], ...]:
        with self._changed:
            return tuple(self._pending)

    def _end(self, pending: PendingAnswer[Any]) -> None:
        if pending.is_running:
            self._running_time.add(pending.running_s())
        self._forget(pending)

    def _forget(self, pending: PendingAnswer[Any]) -> None:
        with self._changed:
            if pending in self._pending:
                del self._pending[pending]
                for one in (pending.owner, pending.owner.tenant):
                    self._places[one] -= 1
                    if not self._places[one]:
                        del self._places[one]
                self._changed.notify_all()

    def _check_room(self, owner: Owner) -> None:
        for one, share_left, whose in (
            (owner, KEY_LEAVES, "this API key"),
            (owner.tenant, TENANT_LEAVES, "this key's tenant"),
        ):
            if self._places[one] >= self._num_places - self._num_places // share_left:
                raise TooManyQuestions(
                    f"Too many questions of {whose} are waiting; ask again in a moment.",
                    retry_after_s=self._next_place_s(),
                )
        if len(self._pending) >= self._num_places:
            raise Busy(
                "Too many questions of others are waiting; ask again in a moment.",
                retry_after_s=self._next_place_s(),
            )

    def _next_place_s(self) -> float:
        """Estimate the seconds until the queue has a place again, from what questions took so far.

        The question that has run longest ends first, or else the one after it.
        """
        longest_s = max((pending.running_s() for pending in self._pending), default=0.0)
        mean_s = self._running_time.seconds
        if mean_s is None:
            return max(UNMEASURED_S, longest_s)
        return max(mean_s - longest_s, mean_s / self._num_slots)
