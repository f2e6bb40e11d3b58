"""The host's clock, with the GPU's work."""

import time
from collections.abc import Callable

import torch


def seconds_of(work: Callable[[], object]) -> float:
    """Seconds of a piece of work, the GPU's included; what it returns is dropped."""
    started = now()
    work()
    return now() - started


def now() -> float:
    """Seconds on the host's clock, when the GPU, if there is one, is through."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()
