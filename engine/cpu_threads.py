"""Over how many threads torch spreads its operations on a CPU.

A pass of a few tokens is made of many short operations. Where the model is small, several threads
spend longer on waiting for each other than on computing: the bundled reader decodes little faster
on two cores than on one of them, which leaves the other one to whoever reads or serves beside it.

GNU's OpenMP, which torch's builds for Linux use, gives each thread that computes helpers of its
own, for as long as this thread lives. As soon as all of them together are more than the machine has
cores, even if most are idle, a helper without work no longer waits for it actively but sleeps at
once, and each operation pays for waking it up: reading on two cores took a fifth longer. Therefore
what is worth many threads runs on a thread that ends with it (`on_own_threads`), and others compute
alone.
"""

import contextvars
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

FEW_TOKENS = 64  # of a pass; more are computed by all threads
WORTHWHILE = 1.5  # times as fast a pass has to be for twice the threads
REPEATS = 5
Result = TypeVar("Result")


def on_own_threads(number: int, work: Callable[[], Result]) -> Result:
    """Do some work on a new thread, spread over so many; they end with it.

    Args:
        number: of threads, at least 1.
    Raises: what the work raises.
    """

    def begin() -> Result:
        torch.set_num_threads(number)
        return work()

    with ThreadPoolExecutor(1, thread_name_prefix="torch") as thread:
        return thread.submit(contextvars.copy_context().run, begin).result()


def compute_alone() -> None:
    """Let torch spread nothing that the calling thread computes.

    To be called once more before work that must stay on the thread, as MKL's number of threads,
    unlike that of OpenMP, is the same for all threads: the latest.
    """
    torch.set_num_threads(1)


class CpuThreads:
    """Chooses how many threads a pass is spread over.

    Attributes:
        most: as many as torch was told to use.
        of_few_tokens: for passes of at most `FEW_TOKENS` tokens.
    """

    def __init__(self) -> None:
        self.most = self.of_few_tokens = torch.get_num_threads()

    def measure(self, take_pass: Callable[[], object]) -> None:
        """Try a pass of one token with ever more threads, as long as more are worth it."""
        if self.most == 1:  # nothing to choose
            return
        chosen = 1
        chosen_s = _best_s(take_pass, chosen)
        while chosen < self.most:
            more = min(2 * chosen, self.most)
            more_s = _best_s(take_pass, more)
            if chosen_s < WORTHWHILE * more_s:
                break
            chosen, chosen_s = more, more_s
        self.of_few_tokens = chosen

    def take(self, num_tokens: int, take_pass: Callable[[], Result]) -> Result:
        """Take a pass of so many tokens, spread over as many threads as it is worth.

        Passes of few tokens are taken on the calling thread. Raises: what the pass raises.
        """
        if num_tokens > FEW_TOKENS and self.most > self.of_few_tokens:
            return on_own_threads(self.most, take_pass)
        torch.set_num_threads(self.of_few_tokens)
        return take_pass()


def _best_s(take_pass: Callable[[], object], number: int) -> float:
    def measure() -> float:
        take_pass()
        times = []
        for _ in range(REPEATS):
            began_s = time.perf_counter()
            take_pass()
            times.append(time.perf_counter() - began_s)
        return min(times)

    return on_own_threads(number, measure)
