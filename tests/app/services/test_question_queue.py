"""The question queue is bounded, all its work can be cancelled, and it reports its health."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.services.question_queue import PendingAnswer, QuestionQueue
from common.errors import (
    Busy,
    CallerGone,
    DocumentDeleted,
    QuestionTimeout,
    QuestionTooLong,
    ShuttingDown,
    TooManyQuestions,
)
from common.owner import Owner
from engine.serving.engine_loop import EngineLoop
from engine.serving.request import AnswerRequest

pytestmark = pytest.mark.anyio
Pending = PendingAnswer[str]


class HandWorkedLoop:
    """An engine loop whose work the test does; what is cancelled ends when it is woken."""

    def __init__(self, max_running: int) -> None:
        self.max_running = max_running
        self.waiting: list[Pending] = []
        self.running: list[Pending] = []
        self.said: str | None = None

    def start(self) -> None: ...

    def close(self) -> None: ...

    def problem(self) -> str | None:
        return self.said

    def submit(self, request: AnswerRequest) -> None:
        self.waiting.append(cast(Pending, request))
        self.admit()

    def admit(self) -> None:
        while self.waiting and len(self.running) < self.max_running:
            self.running.append(self.waiting.pop(0))
            self.running[-1].begin()

    def finish(self, pending: Pending, *words: str, error: Exception | None = None) -> None:
        self.running.remove(pending)
        for word in words:
            pending.put(word)
        pending.end(error)
        self.admit()

    def wake(self) -> None:
        for pending in [one for one in self.waiting if one.is_cancelled()]:
            self.waiting.remove(pending)
            pending.end(CallerGone("stopped"))
        for pending in [one for one in self.running if one.is_cancelled()]:
            self.finish(pending, error=CallerGone("stopped"))


class Served:
    """A queue and the loop that serves it."""

    def __init__(self, slots: int = 1, queued: int = 2, timeout_s: float = 60.0) -> None:
        self.loop = HandWorkedLoop(slots)
        self.queue = QuestionQueue(cast(EngineLoop, self.loop), queued=queued, timeout_s=timeout_s)

    def submit(self, document: str = "doc", key: str = "key", tenant: str = "tenant") -> Pending:
        return self.queue.submit(document, Owner(tenant, key), lambda pending: cast(Any, pending))

    @property
    def load(self) -> tuple[int, int]:
        load = self.queue.load()
        return load.running, load.waiting


async def collect(pending: Pending) -> list[str]:
    async with asyncio.timeout(30):  # one that never ends would hang the tests
        return [item async for item in pending]


async def test_items_arrive_in_order_and_end() -> None:
    served = Served()
    pending = served.submit()
    assert served.load == (1, 0)
    served.loop.finish(pending, "a", "b", "c")
    assert served.load == (0, 0)
    assert await collect(pending) == ["a", "b", "c"]


async def test_an_item_waited_for_is_not_lost() -> None:
    served = Served()
    pending = served.submit()
    served.loop.finish(pending, "a", "b")
    await pending.wait_for_first_item(5)
    assert await collect(pending) == ["a", "b"]


async def test_waiting_for_the_first_item_ends_without_an_error_when_nothing_comes() -> None:
    served = Served()
    served.submit()
    waiting = served.submit()
    await waiting.wait_for_first_item(0.01)
    served.queue.cancel_document("doc", DocumentDeleted("gone"))
    with pytest.raises(DocumentDeleted):
        await collect(waiting)


async def test_an_error_of_the_work_reaches_the_caller() -> None:
    served = Served()
    pending = served.submit()
    served.loop.finish(pending, "a", error=QuestionTooLong("too long"))
    with pytest.raises(QuestionTooLong):
        await collect(pending)


async def test_an_early_error_is_raised_while_waiting_for_the_first_item() -> None:
    served = Served()
    pending = served.submit()
    served.loop.finish(pending, error=QuestionTooLong("too long"))
    with pytest.raises(QuestionTooLong):
        await pending.wait_for_first_item(5)


@pytest.mark.parametrize(("running_s", "expected_s"), [(0, 10), (4, 6), (50, 5)])
async def test_a_refused_caller_is_told_when_a_place_will_be_free(
    monkeypatch: pytest.MonkeyPatch, running_s: float, expected_s: float
) -> None:
    now = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("app.services.question_queue.time", clock)
    served = Served(slots=2, queued=1, timeout_s=1e6)
    for _ in range(5):
        pending = served.submit()
        now[0] += 10.0
        served.loop.finish(pending)
    for _ in range(3):
        served.submit()
    now[0] += running_s
    with pytest.raises(TooManyQuestions) as refused:
        served.submit()
    assert refused.value.retry_after_s == pytest.approx(expected_s)


async def test_one_question_more_than_fits_is_refused() -> None:
    served = Served(slots=1, queued=2)
    accepted = [served.submit() for _ in range(3)]
    with pytest.raises(TooManyQuestions):
        served.submit()
    assert served.load == (1, 2)
    served.queue.cancel(accepted[2])
    served.submit()  # a waiting question that was cancelled frees its place at once


async def test_a_key_leaves_places_to_others() -> None:
    served = Served(slots=4, queued=12)
    for _ in range(14):
        served.submit(key="greedy")
    with pytest.raises(TooManyQuestions):
        served.submit(key="greedy")
    served.submit(key="another")
    served.submit(key="a third", tenant="another")
    with pytest.raises(Busy) as refused:
        served.submit(key="another", tenant="a third")
    assert (refused.value.retry_after_s or 0) > 0


async def test_a_tenant_with_many_keys_leaves_places_to_others() -> None:
    served = Served(slots=4, queued=12)
    for number in range(15):
        served.submit(key=str(number))
    with pytest.raises(TooManyQuestions):
        served.submit(key="one more")
    served.submit(tenant="another")


async def test_a_cancelled_question_ends() -> None:
    served = Served()
    pending = served.submit()
    served.queue.cancel(pending)
    assert served.load == (0, 0)
    with pytest.raises(CallerGone):
        await collect(pending)


async def test_questions_about_a_deleted_document_end_with_that_reason() -> None:
    served = Served()
    running, waiting, other = served.submit(), served.submit(), served.submit("other")
    served.queue.cancel_document("doc", DocumentDeleted("gone"))
    for pending in (running, waiting):
        with pytest.raises(DocumentDeleted):
            await collect(pending)
    served.loop.finish(other, "fine")
    assert await collect(other) == ["fine"]


async def test_a_question_that_takes_too_long_is_stopped() -> None:
    served = Served(timeout_s=0.05)
    pending = served.submit()
    with pytest.raises(QuestionTimeout):
        await collect(pending)
    served.loop.wake()
    assert served.load == (0, 0)


async def test_draining_refuses_new_questions_and_finishes_old_ones() -> None:
    served = Served()
    pending = served.submit()
    served.queue.drain()
    with pytest.raises(ShuttingDown):
        served.submit()
    served.loop.finish(pending, "done")
    assert await collect(pending) == ["done"]


async def test_closing_tells_every_caller() -> None:
    served = Served()
    running, waiting = served.submit(), served.submit()
    await asyncio.to_thread(served.queue.close, 0.0)
    for pending in (running, waiting):
        with pytest.raises(ShuttingDown):
            await collect(pending)
    assert served.load == (0, 0)


async def test_its_problem_is_the_loops() -> None:
    served = Served()
    assert served.queue.problem() is None
    served.loop.said = "It does not run."
    assert served.queue.problem() == "It does not run."


async def test_a_question_that_will_not_stop_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.services.question_queue.STUCK_S", 0.0)
    served = Served(timeout_s=0.0)
    pending = served.submit()
    await asyncio.sleep(0.01)
    assert "does not end" in str(served.queue.problem())
    served.loop.finish(pending)
    assert served.queue.problem() is None
