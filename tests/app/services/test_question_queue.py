"""The question queue is bounded, all its work can be cancelled, and it reports its health."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace

import pytest

from app.services.question_queue import PendingAnswer, QuestionQueue
from common.errors import (
    CallerGone,
    DocumentDeleted,
    QuestionTimeout,
    QuestionTooLong,
    ShuttingDown,
    TooManyQuestions,
)

pytestmark = pytest.mark.anyio
MakeQueue = Callable[..., QuestionQueue]


@pytest.fixture
async def make_queue() -> AsyncIterator[MakeQueue]:
    """Make queues, which are stopped at the end of the test."""
    made: list[QuestionQueue] = []

    def make(*, threads: int = 1, queued: int = 2, timeout_s: float = 60.0) -> QuestionQueue:
        made.append(QuestionQueue(threads=threads, queued=queued, timeout_s=timeout_s))
        made[-1].start()
        return made[-1]

    yield make
    for queue in made:
        await asyncio.to_thread(queue.close, 0.0)


class SlowWork:
    """Work that goes on until it is cancelled; its events tell when it runs and when it ends."""

    def __init__(self) -> None:
        self.running = threading.Event()
        self.ended = threading.Event()

    def __call__(self, pending: PendingAnswer[str]) -> Iterator[str]:
        self.running.set()
        yield "first"
        try:
            while not pending.is_cancelled():
                threading.Event().wait(0.005)
            raise CallerGone("stopped")
        finally:
            self.ended.set()


def say(*words: str) -> Callable[[PendingAnswer[str]], Iterator[str]]:
    """Work that yields words."""
    return lambda pending: iter(words)


async def collect(pending: PendingAnswer[str]) -> list[str]:
    async with asyncio.timeout(30):  # one that never ends would hang the tests
        return [item async for item in pending]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 threads set no asyncio event
            await asyncio.sleep(0.005)


async def test_items_arrive_in_order_and_end(make_queue: MakeQueue) -> None:
    assert await collect(make_queue().submit("doc", say("a", "b", "c"))) == ["a", "b", "c"]


async def test_an_item_waited_for_is_not_lost(make_queue: MakeQueue) -> None:
    pending = make_queue().submit("doc", say("a", "b"))
    await pending.wait_for_first_item(5)
    assert await collect(pending) == ["a", "b"]


async def test_waiting_for_the_first_item_ends_without_an_error_when_nothing_comes(
    make_queue: MakeQueue,
) -> None:
    queue, slow = make_queue(), SlowWork()
    queue.submit("doc", slow)
    waiting = queue.submit("doc", say("late"))
    await waiting.wait_for_first_item(0.01)
    queue.cancel_document("doc", DocumentDeleted("gone"))
    with pytest.raises(DocumentDeleted):
        await collect(waiting)


async def test_an_error_of_the_work_reaches_the_caller(make_queue: MakeQueue) -> None:
    def fail(pending: PendingAnswer[str]) -> Iterator[str]:
        yield "a"
        raise QuestionTooLong("too long")

    pending = make_queue().submit("doc", fail)
    with pytest.raises(QuestionTooLong):
        await collect(pending)


async def test_an_early_error_is_raised_while_waiting_for_the_first_item(
    make_queue: MakeQueue,
) -> None:
    def fail(pending: PendingAnswer[str]) -> Iterator[str]:
        raise QuestionTooLong("too long")
        yield "never"

    with pytest.raises(QuestionTooLong):
        await make_queue().submit("doc", fail).wait_for_first_item(5)


@pytest.mark.parametrize(("running_s", "expected_s"), [(0, 10), (4, 6), (50, 5)])
async def test_a_refused_caller_is_told_when_a_place_will_be_free(
    make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch, running_s: float, expected_s: float
) -> None:
    now = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("app.services.question_queue.time", clock)
    queue = make_queue(threads=2, queued=1, timeout_s=1e6)

    def ten_seconds(_: PendingAnswer[str]) -> Iterator[str]:
        now[0] += 10.0
        yield "done"

    for _ in range(5):
        await collect(queue.submit("doc", ten_seconds))
        await until(lambda: queue.load().running == 0)
    slow = SlowWork()
    for _ in range(3):
        queue.submit("doc", slow)
    await until(lambda: queue.load().running == 2)
    now[0] += running_s
    with pytest.raises(TooManyQuestions) as refused:
        queue.submit("doc", slow)
    assert refused.value.retry_after_s == pytest.approx(expected_s)


async def test_one_question_more_than_fits_is_refused(make_queue: MakeQueue) -> None:
    queue = make_queue(threads=1, queued=2)
    slow = SlowWork()
    accepted = [queue.submit("doc", slow) for _ in range(3)]
    await asyncio.to_thread(slow.running.wait, 10)
    with pytest.raises(TooManyQuestions):
        queue.submit("doc", slow)
    assert queue.load().running == 1
    assert queue.load().waiting == 2
    queue.cancel(accepted[2])
    queue.submit("doc", slow)  # a waiting question that was cancelled frees its place at once


async def test_a_cancelled_question_frees_its_thread(make_queue: MakeQueue) -> None:
    queue, slow = make_queue(), SlowWork()
    pending = queue.submit("doc", slow)
    await pending.wait_for_first_item(5)
    queue.cancel(pending)
    await until(lambda: queue.load().running == 0)
    assert slow.ended.is_set()
    assert await collect(queue.submit("doc", say("next"))) == ["next"]


async def test_questions_about_a_deleted_document_end_with_that_reason(
    make_queue: MakeQueue,
) -> None:
    queue, slow = make_queue(), SlowWork()
    running, waiting = queue.submit("doc", slow), queue.submit("doc", slow)
    other = queue.submit("other", say("fine"))
    await running.wait_for_first_item(5)
    queue.cancel_document("doc", DocumentDeleted("gone"))
    for pending in (running, waiting):
        with pytest.raises(DocumentDeleted):
            await collect(pending)
    assert await collect(other) == ["fine"]


async def test_a_question_that_takes_too_long_is_stopped(make_queue: MakeQueue) -> None:
    queue, slow = make_queue(timeout_s=0.2), SlowWork()
    pending = queue.submit("doc", slow)
    with pytest.raises(QuestionTimeout):
        await collect(pending)
    await until(lambda: queue.load().running == 0)


async def test_draining_refuses_new_questions_and_finishes_old_ones(make_queue: MakeQueue) -> None:
    queue, release = make_queue(), threading.Event()

    def work(pending: PendingAnswer[str]) -> Iterator[str]:
        release.wait(10)
        yield "done"

    pending = queue.submit("doc", work)
    queue.drain()
    with pytest.raises(ShuttingDown):
        queue.submit("doc", say("new"))
    release.set()
    assert await collect(pending) == ["done"]


async def test_closing_tells_every_caller(make_queue: MakeQueue) -> None:
    queue, slow = make_queue(), SlowWork()
    running, waiting = queue.submit("doc", slow), queue.submit("doc", slow)
    await running.wait_for_first_item(5)
    await asyncio.to_thread(queue.close, 0.0)
    for pending in (running, waiting):
        with pytest.raises(ShuttingDown):
            await collect(pending)
    assert queue.load().running == 0


async def test_health_needs_living_threads(make_queue: MakeQueue) -> None:
    unstarted = QuestionQueue(threads=1, queued=0, timeout_s=1)
    assert not unstarted.is_healthy()
    queue = make_queue()
    assert queue.is_healthy()
    await asyncio.to_thread(queue.close, 0.0)
    assert not queue.is_healthy()


async def test_a_question_that_will_not_stop_makes_the_queue_unhealthy(
    make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.question_queue.STUCK_S", 0.0)
    queue, release = make_queue(timeout_s=0.05), threading.Event()

    def stuck(pending: PendingAnswer[str]) -> Iterator[str]:
        release.wait(10)
        yield "at last"

    queue.submit("doc", stuck)
    await until(lambda: not queue.is_healthy())
    release.set()
    await until(queue.is_healthy)
