"""Time on the host and on the device, and the rates that floors are made of; wrong results."""

import time
from collections.abc import Callable, Sequence

import torch

from training.record import percentiles


class WrongResult(SystemExit):
    """What is to be timed does not give the result that it is defined to give: no figure."""


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


def time_graph(
    steps: Sequence[Callable[[], object]], *, least_steps: int = 16, replays: int = 40
) -> dict[str, float]:
    """Percentiles of microseconds a step, replaying a CUDA graph that runs the steps in turn.

    Args:
        steps: one call each, over inputs that together are several times the L2 cache.
        least_steps: calls in a graph, so that the launch of the graph itself weighs little.
        replays: timed replays, each a sample.
    """
    turns = -(-least_steps // len(steps))
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())  # the steps' inputs may still be in the making
    with torch.cuda.stream(stream):
        for step in steps:
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(turns):
            for step in steps:
                step()
    for _ in range(3):
        graph.replay()
    marks = [
        torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        for _ in range(2 * replays)
    ]
    for begin, end in zip(marks[::2], marks[1::2], strict=True):
        begin.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    count = turns * len(steps)
    pairs = zip(marks[::2], marks[1::2], strict=True)
    return percentiles([begin.elapsed_time(end) * 1e3 / count for begin, end in pairs])


def copy_bandwidth(num_bytes: int = 1 << 32) -> float:
    """Bytes a second, read plus written, of the best large copy on the device.

    That is an elementwise kernel in a graph or a copy outside of one: as a node of a graph, the
    driver's own copy reached 2.8 of 4.3 TB/s on an H200, which would make floors too high.
    """
    source = torch.rand(num_bytes // 4, device="cuda")
    target = torch.empty_like(source)
    kernel = time_graph([lambda: torch.neg(source, out=target)], least_steps=4, replays=10)
    copy = time_eager(lambda: target.copy_(source), calls=10)
    return 2 * num_bytes * 1e6 / min(kernel["p50"], copy["p50"])


def time_eager(call: Callable[[], object], calls: int) -> dict[str, float]:
    """Percentiles of microseconds of single calls outside a graph: for calls that are long."""
    call()
    samples = []
    for _ in range(calls):
        begin, end = (
            torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            for _ in range(2)
        )
        begin.record()
        call()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) * 1e3)
    return percentiles(samples)


def matmul_rate(size: int = 8192) -> float:
    """Floating-point operations a second of a large bf16 product of matrices."""
    left, right = torch.randn(2, size, size, device="cuda", dtype=torch.bfloat16)
    sample = time_graph([lambda: left @ right], least_steps=4, replays=10)
    return 2 * size**3 * 1e6 / sample["p50"]
