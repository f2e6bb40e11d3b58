"""How many threads a pass is spread over follows how long passes took."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest
import torch

from engine.cpu_threads import FEW_TOKENS, CpuThreads, compute_alone, on_own_threads


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
        ({1: 14, 2: 10, 4: 10}, 1),
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


def test_passes_of_many_tokens_use_all_threads_on_a_thread_that_ends(most: int) -> None:
    threads = CpuThreads()
    threads.of_few_tokens = 1
    caller = threading.current_thread()

    def take_pass() -> tuple[int, threading.Thread]:
        return torch.get_num_threads(), threading.current_thread()

    for num_tokens in (1, FEW_TOKENS):
        assert threads.take(num_tokens, take_pass) == (1, caller)
    number, thread = threads.take(FEW_TOKENS + 1, take_pass)
    assert number == most
    assert not thread.is_alive()
    threads.of_few_tokens = most
    assert threads.take(FEW_TOKENS + 1, take_pass) == (most, caller)


def test_work_on_own_threads_has_the_callers_context_and_raises_to_it(most: int) -> None:
    context = ContextVar("context", default="none")
    context.set("callers")
    assert on_own_threads(2, lambda: (context.get(), torch.get_num_threads())) == ("callers", 2)
    with pytest.raises(KeyError):
        on_own_threads(2, lambda: {}["missing"])
    assert torch.get_num_threads() == most


def test_a_thread_computes_alone_whatever_others_do(most: int) -> None:
    with ThreadPoolExecutor(1, initializer=compute_alone) as pool:
        on_own_threads(2, lambda: None)
        assert pool.submit(torch.get_num_threads).result() == 1
    assert torch.get_num_threads() == most


def test_no_pass_is_tried_where_there_is_one_thread(most: int) -> None:
    torch.set_num_threads(1)
    threads = CpuThreads()
    tried: list[int] = []
    threads.measure(lambda: tried.append(1))
    assert (threads.of_few_tokens, tried) == (1, [])
