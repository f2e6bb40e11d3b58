"""Over how many threads torch spreads its operations on a CPU, and when these threads end.

A pass of a few tokens is made of many short operations. Where the model is small, several threads
may spend longer on waiting for each other than on computing.

GNU's OpenMP, which torch's builds for Linux use, keeps a pool of worker threads for each thread
that has computed, for as long as this thread lives. As soon as all pools together have more threads
than the machine has cores, even if most are idle, a worker without work no longer spins but sleeps
at once, and each operation pays for waking it up: reading on two cores took a fifth longer. So
whoever has computed ends its pool before others need the cores for long (`release_worker_threads`).
"""

import ctypes
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import TypeVar

import torch

FEW_TOKENS = 64  # of a pass; more are computed by all threads
WORTHWHILE = 1.25  # times as fast a pass has to be for twice the threads
REPEATS = 5
SOFT_PAUSE = 1  # omp_pause_soft
Result = TypeVar("Result")


def keep_to_threads(number: int) -> None:
    """Let torch spread the calling thread's operations over so many threads, whatever others set.

    With a thread's first parallel operation torch takes the number that any thread has set last.
    """
    torch.get_num_threads()  # counts as the first
    torch.set_num_threads(number)


def release_worker_threads() -> None:
    """End OpenMP's pool of the calling thread; its next parallel operation makes a new one.

    That takes milliseconds. With another OpenMP than GNU's nothing is done.
    Source: OpenMP API 5.0, section 3.2.44, `omp_pause_resource_all`.
    """
    pause = _gnu_pause()
    if pause is not None:
        pause(SOFT_PAUSE)


@cache
def _gnu_pause() -> Callable[[int], int] | None:
    """GNU OpenMP's `omp_pause_resource_all`, which pauses nothing but the calling thread's part."""
    if sys.platform != "linux":
        return None
    process = ctypes.CDLL(None)  # torch makes the symbols of its OpenMP known to all
    if hasattr(process, "__kmpc_fork_call") or not hasattr(process, "GOMP_parallel"):
        return None
    return getattr(process, "omp_pause_resource_all", None)


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
        torch.set_num_threads(self.most)
        self.of_few_tokens = chosen

    def take(self, num_tokens: int, take_pass: Callable[[], Result]) -> Result:
        """Take a pass of so many tokens, spread over as many threads as it is worth.

        The number stays set for the calling thread. Raises: what the pass raises.
        """
        torch.set_num_threads(self.most if num_tokens > FEW_TOKENS else self.of_few_tokens)
        return take_pass()


def _best_s(take_pass: Callable[[], object], number: int) -> float:
    torch.set_num_threads(number)
    take_pass()
    times = []
    for _ in range(REPEATS):
        began_s = time.perf_counter()
        take_pass()
        times.append(time.perf_counter() - began_s)
    return min(times)
