"""How many threads a pass is spread over follows how long passes took."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from engine import engine as module
from engine.cpu_threads import FEW_TOKENS, CpuThreads, release_worker_threads
from engine.engine import Engine
from precompute.pace import ReadingPace
from tests.models import FAMILIES, loaded


def threads_of_process() -> set[str]:
    """The kernel's numbers of all threads of this process."""
    return {thread.name for thread in Path("/proc/self/task").iterdir()}


@pytest.fixture
def most():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield 4
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("ms_by_threads", "chosen"),
    [
        ({1: 4, 2: 4, 4: 1}, 1),
        ({1: 20, 2: 10, 4: 10}, 2),
        ({1: 40, 2: 20, 4: 5}, 4),
    ],
)
def test_more_threads_are_used_while_they_are_worth_it(
    monkeypatch: pytest.MonkeyPatch, most: int, ms_by_threads: dict[int, int], chosen: int
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    threads = CpuThreads()

    def take_pass() -> None:
        now[0] += ms_by_threads[torch.get_num_threads()]

    threads.measure(take_pass)
    assert (threads.most, threads.of_few_tokens) == (most, chosen)
    assert torch.get_num_threads() == most


def test_passes_of_many_tokens_use_all_threads(most: int) -> None:
    threads = CpuThreads()
    threads.of_few_tokens = 1
    for num_tokens, number in ((1, 1), (FEW_TOKENS, 1), (FEW_TOKENS + 1, most)):
        torch.set_num_threads(2)  # as somebody else does
        assert threads.take(num_tokens, torch.get_num_threads) == number


@pytest.mark.skipif(sys.platform != "linux", reason="knows GNU's OpenMP by its process")
def test_no_worker_threads_are_left_of_a_thread_that_released_them(most: int) -> None:
    def workers_of_an_operation() -> set[str]:
        torch.set_num_threads(most)
        before = threads_of_process()
        _ = torch.ones(1_000, 1_000).exp()
        return threads_of_process() - before

    with ThreadPoolExecutor(1) as pool:  # a thread that has none yet
        workers = pool.submit(workers_of_an_operation).result()
        assert len(workers) >= most - 1
        pool.submit(release_worker_threads).result()
        deadline_s = time.monotonic() + 10
        while workers & threads_of_process():  # they have been told to end, and do so at once
            assert time.monotonic() < deadline_s
            time.sleep(0.001)


def test_a_thread_that_released_its_workers_computes_on(most: int) -> None:
    numbers = torch.arange(1_000_000, dtype=torch.float64)
    for _ in range(3):
        assert float(numbers.sqrt().square().sum()) == pytest.approx(float(numbers.sum()))
        release_worker_threads()


def test_helpers_of_an_engine_compute_on_one_thread_each(most: int) -> None:
    with Engine(loaded(FAMILIES["llama"])) as engine:
        with ThreadPoolExecutor(1, initializer=engine.keep_to_one_thread) as pool:
            pool.submit(int).result()  # the thread has begun
            torch.set_num_threads(2)
            assert pool.submit(torch.get_num_threads).result() == 1
        assert torch.get_num_threads() == 2


def test_an_idle_engine_ends_its_worker_threads_only_beside_a_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released: list[bool] = []
    monkeypatch.setattr(module, "release_worker_threads", lambda: released.append(True))
    with Engine(loaded(FAMILIES["llama"])) as engine:
        engine.release_idle_threads()
        assert released == []
        with ReadingPace(engine.model.device, engine.turns):
            engine.release_idle_threads()
        engine.release_idle_threads()
    assert released == [True]


def test_no_pass_is_tried_where_there_is_one_thread(most: int) -> None:
    torch.set_num_threads(1)
    threads = CpuThreads()
    tried: list[int] = []
    threads.measure(lambda: tried.append(1))
    assert (threads.of_few_tokens, tried) == (1, [])
