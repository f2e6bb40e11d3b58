"""Over how many threads torch spreads the operations of a forward pass on a CPU.

A pass of a few tokens is made of many short operations. Where the model is small, several threads
spend longer on waiting for each other than on computing: the bundled reader decodes a third faster
on one of two cores than on both, and leaves the other one to whoever reads or serves beside it.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

FEW_TOKENS = 64  # of a pass; more are computed by all threads
WORTHWHILE = 1.25  # times as fast a pass has to be for twice the threads
REPEATS = 5


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
        chosen_s = self._best_s(take_pass, chosen)
        while chosen < self.most:
            more = min(2 * chosen, self.most)
            more_s = self._best_s(take_pass, more)
            if chosen_s < WORTHWHILE * more_s:
                break
            chosen, chosen_s = more, more_s
        self.of_few_tokens = chosen

    @contextmanager
    def used_for(self, num_tokens: int) -> Iterator[None]:
        """Spread a pass of so many tokens on this thread; then all is as before."""
        number, before = self._number(num_tokens), torch.get_num_threads()
        if number == before:
            yield
            return
        torch.set_num_threads(number)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def _number(self, num_tokens: int) -> int:
        return self.of_few_tokens if num_tokens <= FEW_TOKENS else self.most

    @staticmethod
    def _best_s(take_pass: Callable[[], object], number: int) -> float:
        before = torch.get_num_threads()
        torch.set_num_threads(number)
        try:
            take_pass()
            times = []
            for _ in range(REPEATS):
                began_s = time.perf_counter()
                take_pass()
                times.append(time.perf_counter() - began_s)
            return min(times)
        finally:
            torch.set_num_threads(before)
