"""Reading gives way to answers; a GPU's stream and events have a stand-in."""

import threading
from types import SimpleNamespace

import pytest
import torch

from engine.turns import DeviceTurns
from precompute import pace as paces
from precompute.pace import (
    BUSY_CHUNK_TOKENS,
    CPU_REST,
    LOOK_EVERY_S,
    MOST_AHEAD,
    MOST_CPU_REST_S,
    ReadingPace,
)
from tests.workers.conftest import wait_for


class Gpu:
    """Counts what is launched and what is waited for."""

    def __init__(self) -> None:
        self.recorded = self.waited = self.drained = 0

    def Event(self) -> SimpleNamespace:
        return SimpleNamespace(record=self._record, synchronize=self._wait)

    def synchronize(self) -> None:
        self.drained += 1

    def _record(self, stream: object) -> None:
        assert stream is self
        self.recorded += 1

    def _wait(self) -> None:
        self.waited += 1


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    gpu = Gpu()
    monkeypatch.setattr(torch.cuda, "Event", gpu.Event)
    return gpu


@pytest.fixture
def turns() -> DeviceTurns:
    return DeviceTurns()


@pytest.fixture
def pace(gpu: Gpu, turns: DeviceTurns) -> ReadingPace:
    pace = ReadingPace(torch.device("cpu"), turns)
    pace._stream = gpu  # type: ignore[assignment]
    return pace


def answer(turns: DeviceTurns) -> threading.Thread:
    """Ask for a turn on another thread, and wait until it is asked for."""

    def take() -> None:
        with turns.answering():
            pass

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    wait_for(lambda: turns.is_wanted or not thread.is_alive())
    return thread


def test_few_pieces_are_under_way_while_nobody_answers(pace: ReadingPace, gpu: Gpu) -> None:
    for _ in range(10):
        pace.next_piece()
    assert gpu.recorded == 9
    assert gpu.waited == 9 - MOST_AHEAD
    assert gpu.drained == 0


def test_an_answer_gets_its_turn_once_reading_had_its_time(
    pace: ReadingPace, gpu: Gpu, turns: DeviceTurns, monkeypatch: pytest.MonkeyPatch
) -> None:
    pace.next_piece()
    thread = answer(turns)
    monkeypatch.setattr(paces, "TURN_S", 3600.0)
    pace.next_piece()
    assert thread.is_alive()
    assert gpu.drained == 0
    monkeypatch.setattr(paces, "TURN_S", 0.0)
    pace.next_piece()
    thread.join(10)
    assert not thread.is_alive()
    assert gpu.drained == 1, "the answer began when the GPU had done all of the reading's work"


def test_a_rest_leaves_the_device_to_answers(
    pace: ReadingPace, gpu: Gpu, turns: DeviceTurns
) -> None:
    pace.next_piece()
    pace.rest()
    answer(turns).join(10)
    assert gpu.drained == 1
    pace.next_piece()
    pace.rest()


def test_chunks_are_short_while_questions_are_answered(
    pace: ReadingPace, turns: DeviceTurns
) -> None:
    assert pace.chunk_tokens(8192) == 8192
    answer(turns).join(10)
    assert pace.chunk_tokens(8192) == BUSY_CHUNK_TOKENS
    assert pace.chunk_tokens(100) == 100


def test_reading_on_a_cpu_rests_while_questions_are_answered(
    turns: DeviceTurns, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []
    clock = SimpleNamespace(now=100.0)

    def sleep(seconds: float) -> None:
        rests.append(seconds)
        clock.now += seconds

    monkeypatch.setattr(paces, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))
    monkeypatch.setattr(DeviceTurns, "has_answers", property(lambda _: has_answers))
    with ReadingPace(torch.device("cpu"), turns) as pace:
        has_answers = False
        clock.now += 0.1
        pace.next_piece()
        assert rests == []
        has_answers = True
        clock.now += 0.1
        pace.next_piece()
        assert sum(rests) == pytest.approx(CPU_REST * 0.1, abs=2 * LOOK_EVERY_S)
        rests.clear()
        clock.now += 60.0
        pace.next_piece()
        assert sum(rests) == pytest.approx(MOST_CPU_REST_S, abs=2 * LOOK_EVERY_S)


def test_a_cpu_takes_no_turns(turns: DeviceTurns) -> None:
    turns.begin_reading()
    with ReadingPace(torch.device("cpu"), turns) as pace:
        pace.next_piece()
        assert pace.is_host_due()
        assert pace.chunk_tokens(8192) == 8192
    turns.end_reading()
