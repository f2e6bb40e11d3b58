"""Answers and a document take turns on a device, in the order in which they ask for them."""

import threading
import time
from collections.abc import Callable

import pytest

from engine.turns import DeviceTurns
from tests.workers.conftest import wait_for


@pytest.fixture
def turns() -> DeviceTurns:
    return DeviceTurns()


def start(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_an_answer_waits_for_the_piece_that_is_being_read(turns: DeviceTurns) -> None:
    order: list[str] = []
    turns.begin_reading()

    def answer() -> None:
        with turns.answering():
            order.append("answer")

    thread = start(answer)
    wait_for(lambda: turns.is_wanted)
    order.append("piece")
    turns.end_reading()
    thread.join(10)
    assert order == ["piece", "answer"]
    assert not turns.is_wanted


def test_the_next_piece_waits_for_the_answer_that_asked_before(turns: DeviceTurns) -> None:
    order: list[str] = []
    turns.begin_reading()

    def answer() -> None:
        with turns.answering():
            time.sleep(0.05)
            order.append("answer")

    thread = start(answer)
    wait_for(lambda: turns.is_wanted)
    turns.end_reading()
    turns.begin_reading()
    order.append("piece")
    turns.end_reading()
    thread.join(10)
    assert order == ["answer", "piece"]


def test_reading_comes_to_its_turn_among_answers_without_end(turns: DeviceTurns) -> None:
    is_over = threading.Event()

    def answer() -> None:
        while not is_over.is_set():
            with turns.answering():
                time.sleep(0.002)

    threads = [start(answer) for _ in range(3)]
    for _ in range(5):
        turns.begin_reading()
        turns.end_reading()
    is_over.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def test_answers_work_beside_each_other(turns: DeviceTurns) -> None:
    together = threading.Barrier(2, timeout=10)

    def answer() -> None:
        with turns.answering():
            together.wait()

    threads = [start(answer) for _ in range(2)]
    for thread in threads:
        thread.join(10)
    assert not together.broken


def test_answers_are_remembered_for_a_moment(
    turns: DeviceTurns, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not turns.has_answers
    with turns.answering():
        assert turns.has_answers
    assert turns.has_answers
    monkeypatch.setattr("engine.turns.RECENTLY_S", 0.0)
    assert not turns.has_answers
