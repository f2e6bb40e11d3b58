"""The question desk: bounded, cancellable, and honest about its health."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from app.services.question_queue import QuestionDesk, Ticket
from common.errors import (
    Cancelled,
    DocumentDeleted,
    QuestionTimeout,
    QuestionTooLong,
    ShuttingDown,
    TooManyQuestions,
)

pytestmark = pytest.mark.anyio
Desks = Callable[..., QuestionDesk]


@pytest.fixture
async def desks() -> AsyncIterator[Desks]:
    """Make desks and stop them in the end."""
    made: list[QuestionDesk] = []

    def make(*, threads: int = 1, queued: int = 2, timeout_s: float = 60.0) -> QuestionDesk:
        made.append(QuestionDesk(threads=threads, queued=queued, timeout_s=timeout_s))
        made[-1].start()
        return made[-1]

    yield make
    for desk in made:
        await asyncio.to_thread(desk.close, 0.0)


class Slow:
    """Work that goes on until it is told to stop, and says when it runs and when it ended."""

    def __init__(self) -> None:
        self.running = threading.Event()
        self.ended = threading.Event()

    def __call__(self, ticket: Ticket[str]) -> Iterator[str]:
        self.running.set()
        yield "first"
        try:
            while not ticket.cancelled():
                threading.Event().wait(0.005)
            raise Cancelled("stopped")
        finally:
            self.ended.set()


def say(*words: str) -> Callable[[Ticket[str]], Iterator[str]]:
    """Work that yields words."""
    return lambda ticket: iter(words)


async def collect(ticket: Ticket[str]) -> list[str]:
    return [item async for item in ticket]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 threads set no asyncio event
            await asyncio.sleep(0.005)


async def test_items_arrive_in_order_and_end(desks: Desks) -> None:
    assert await collect(desks().submit("doc", say("a", "b", "c"))) == ["a", "b", "c"]


async def test_an_item_waited_for_is_not_lost(desks: Desks) -> None:
    ticket = desks().submit("doc", say("a", "b"))
    await ticket.settle(5)
    assert await collect(ticket) == ["a", "b"]


async def test_settling_gives_up_quietly_when_nothing_comes(desks: Desks) -> None:
    desk, slow = desks(), Slow()
    desk.submit("doc", slow)
    waiting = desk.submit("doc", say("late"))
    await waiting.settle(0.01)
    desk.cancel_topic("doc", DocumentDeleted("gone"))
    with pytest.raises(DocumentDeleted):
        await collect(waiting)


async def test_an_error_of_the_work_reaches_the_caller(desks: Desks) -> None:
    def fail(ticket: Ticket[str]) -> Iterator[str]:
        yield "a"
        raise QuestionTooLong("too long")

    ticket = desks().submit("doc", fail)
    with pytest.raises(QuestionTooLong):
        await collect(ticket)


async def test_an_early_error_is_raised_while_settling(desks: Desks) -> None:
    def fail(ticket: Ticket[str]) -> Iterator[str]:
        raise QuestionTooLong("too long")
        yield "never"

    with pytest.raises(QuestionTooLong):
        await desks().submit("doc", fail).settle(5)


async def test_one_question_more_than_fits_is_refused(desks: Desks) -> None:
    desk = desks(threads=1, queued=2)
    slow = Slow()
    tickets = [desk.submit("doc", slow) for _ in range(3)]
    await asyncio.to_thread(slow.running.wait, 10)
    with pytest.raises(TooManyQuestions):
        desk.submit("doc", slow)
    assert desk.load().running == 1
    assert desk.load().waiting == 2
    desk.cancel(tickets[2])
    desk.submit("doc", slow)  # a waiting question that was cancelled frees its place at once


async def test_a_cancelled_question_frees_its_thread(desks: Desks) -> None:
    desk, slow = desks(), Slow()
    ticket = desk.submit("doc", slow)
    await ticket.settle(5)
    desk.cancel(ticket)
    await until(lambda: desk.load().running == 0)
    assert slow.ended.is_set()
    assert await collect(desk.submit("doc", say("next"))) == ["next"]


async def test_questions_about_a_deleted_document_end_with_that_reason(desks: Desks) -> None:
    desk, slow = desks(), Slow()
    running, waiting = desk.submit("doc", slow), desk.submit("doc", slow)
    other = desk.submit("other", say("fine"))
    await running.settle(5)
    desk.cancel_topic("doc", DocumentDeleted("gone"))
    for ticket in (running, waiting):
        with pytest.raises(DocumentDeleted):
            await collect(ticket)
    assert await collect(other) == ["fine"]


async def test_a_question_that_takes_too_long_is_stopped(desks: Desks) -> None:
    desk, slow = desks(timeout_s=0.2), Slow()
    ticket = desk.submit("doc", slow)
    with pytest.raises(QuestionTimeout):
        await collect(ticket)
    await until(lambda: desk.load().running == 0)


async def test_draining_refuses_new_questions_and_finishes_old_ones(desks: Desks) -> None:
    desk, release = desks(), threading.Event()

    def work(ticket: Ticket[str]) -> Iterator[str]:
        release.wait(10)
        yield "done"

    ticket = desk.submit("doc", work)
    desk.drain()
    with pytest.raises(ShuttingDown):
        desk.submit("doc", say("new"))
    release.set()
    assert await collect(ticket) == ["done"]


async def test_closing_tells_every_caller(desks: Desks) -> None:
    desk, slow = desks(), Slow()
    running, waiting = desk.submit("doc", slow), desk.submit("doc", slow)
    await running.settle(5)
    await asyncio.to_thread(desk.close, 0.0)
    for ticket in (running, waiting):
        with pytest.raises(ShuttingDown):
            await collect(ticket)
    assert desk.load().running == 0


async def test_health_needs_living_threads(desks: Desks) -> None:
    unstarted = QuestionDesk(threads=1, queued=0, timeout_s=1)
    assert not unstarted.healthy()
    desk = desks()
    assert desk.healthy()
    await asyncio.to_thread(desk.close, 0.0)
    assert not desk.healthy()


async def test_a_question_that_will_not_stop_makes_the_desk_unhealthy(
    desks: Desks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.question_queue.STUCK_S", 0.0)
    desk, release = desks(timeout_s=0.05), threading.Event()

    def stuck(ticket: Ticket[str]) -> Iterator[str]:
        release.wait(10)
        yield "at last"

    desk.submit("doc", stuck)
    await until(lambda: not desk.healthy())
    release.set()
    await until(desk.healthy)
