"""Capturing a pass in a CUDA graph."""

from collections.abc import Callable
from typing import Any

import torch


def capture_pass(take_pass: Callable[[], None], pool: Any) -> torch.cuda.CUDAGraph:
    """Capture a pass that was warmed up; other threads may use the device meanwhile.

    Args:
        take_pass: takes the pass, between tensors that stay where they are.
        pool: memory that the graph shares with others on the same stream; None for its own.
    Raises: RuntimeError where something in the pass waits for the host.
    """
    current = torch.cuda.current_stream()
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(current)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.stream(stream):
            take_pass()  # libraries set themselves up once a stream
        with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            take_pass()
    finally:
        torch.cuda.set_stream(current)  # a failed capture leaves its own
    current.wait_stream(stream)
    return graph
