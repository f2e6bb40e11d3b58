"""How many threads a pass is spread over follows how long passes took."""

import time

import pytest
import torch

from engine.decode.cpu_threads import FEW_TOKENS, CpuThreads


@pytest.fixture
def most():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield 4
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("ms_by_threads", "chosen"),
    [({1: 4, 2: 4, 4: 1}, 1), ({1: 20, 2: 10, 4: 10}, 2), ({1: 40, 2: 20, 4: 5}, 4)],
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


def test_passes_of_many_tokens_use_all_threads_and_nothing_stays_changed(most: int) -> None:
    threads = CpuThreads()
    threads.of_few_tokens = 1
    torch.set_num_threads(2)
    for num_tokens, number in ((1, 1), (FEW_TOKENS, 1), (FEW_TOKENS + 1, most)):
        with threads.used_for(num_tokens):
            assert torch.get_num_threads() == number
        assert torch.get_num_threads() == 2


def test_no_pass_is_tried_where_there_is_one_thread(most: int) -> None:
    torch.set_num_threads(1)
    threads = CpuThreads()
    tried: list[int] = []
    threads.measure(lambda: tried.append(1))
    assert (threads.of_few_tokens, tried) == (1, [])
