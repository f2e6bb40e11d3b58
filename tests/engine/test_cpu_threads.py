"""How many threads a pass is spread over follows how long passes took."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from engine.cpu_threads import FEW_TOKENS, CpuThreads, compute_alone, release_helpers


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
def test_a_thread_that_rests_keeps_no_helpers(most: int) -> None:
    def helpers_of_a_product() -> set[str]:
        torch.set_num_threads(most)
        before = threads_of_process()
        _ = torch.ones(1_000, 1_000).exp()
        return threads_of_process() - before

    with ThreadPoolExecutor(1) as pool:  # a thread that has none yet
        helpers = pool.submit(helpers_of_a_product).result()
        assert len(helpers) >= most - 1
        pool.submit(release_helpers).result()
        deadline_s = time.monotonic() + 10
        while helpers & threads_of_process():  # they have been told to end, and do so at once
            assert time.monotonic() < deadline_s
            time.sleep(0.001)


def test_a_thread_that_gave_its_helpers_up_computes_on(most: int) -> None:
    numbers = torch.arange(1_000_000, dtype=torch.float64)
    for _ in range(3):
        assert float(numbers.sqrt().square().sum()) == pytest.approx(float(numbers.sum()))
        release_helpers()


def test_a_thread_computes_alone_whatever_others_do(most: int) -> None:
    with ThreadPoolExecutor(1, initializer=compute_alone) as pool:
        torch.set_num_threads(2)
        assert pool.submit(torch.get_num_threads).result() == 1
    assert torch.get_num_threads() == 2


def test_no_pass_is_tried_where_there_is_one_thread(most: int) -> None:
    torch.set_num_threads(1)
    threads = CpuThreads()
    tried: list[int] = []
    threads.measure(lambda: tried.append(1))
    assert (threads.of_few_tokens, tried) == (1, [])
