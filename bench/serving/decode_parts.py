"""Where the time of a token and of a first token goes, on one GPU.

    python -m bench.serving.decode_parts --out DIR
    python -m bench.serving.decode_parts --only compiled compiled_library --context 128K --out DIR

For each way to decode (`compiled` layers or not, with products of our own or the library's): a
token by the host's clock, as `bench.serving.decode` measures it; the device's share of it, by
events around passes that are asked for back to back; what the host takes to ask for one; and the
kernels of a pass by the profiler. `first` tells the same of a question's prefill, with what the
host spends its time on. Models and documents are those of `bench.serving.decode`. Sections that
fail are named, and the others go on; the file is written after each.
"""

import argparse
import cProfile
import io
import pstats
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch.profiler import ProfilerActivity, profile

import bench.serving.decode as decoding
from bench import RESULTS
from bench.random_llama import SEED, SHAPES
from bench.serving.synthetic import draw_document, draw_model
from bench.serving.synthetic_question import (
    ANSWER_TOKENS,
    QUESTION_TOKENS,
    ask,
    budget_of,
    calibrated,
    opened,
    question_ids,
)
from engine.attend.budget import ReadMeter
from engine.attend.question import QuestionState
from engine.config import DecodeConfig
from engine.decode.graph import DecodeGraph
from engine.decode.graph_pool import DecodeGraphPool
from engine.document.cache import DocumentCache
from engine.model.loader import LoadedModel
from training.record import circumstances, drawn, percentiles, write

COMPILED = DecodeConfig(compiled_layers=True)
WAYS = {
    "compiled": COMPILED,
    "compiled_library": replace(COMPILED, triton_linears=False),
    "uncompiled": DecodeConfig(),
    "uncompiled_library": DecodeConfig(triton_linears=False),
}
SECTIONS = ("first", *WAYS)
GROUPS = {  # words in the names of kernels; the first that fits counts
    "products": ("matvec", "gemv", "gemm", "nvjet", "cutlass", "splitk", "dot_kernel"),
    "attention": (
        "score_centroids", "score_children", "select_runs", "select_tokens", "attend_",
        "combine_splits", "merge_states", "append_keys", "accumulate_attention_mass",
    ),
}  # fmt: skip
PASSES, FIRSTS, PROFILED, SHOWN = 20, 12, 3, 24


@dataclass(frozen=True)
class KernelTime:
    """What one kernel takes of a pass: microseconds, and launches."""

    name: str
    us: float
    launches: float


class Counted(Protocol):
    """A row of the profiler's averages."""

    key: str
    count: int
    self_device_time_total: float


class Parts:
    """Sections as they are measured, on file.

    Args:
        about: goes into the file.
        folder: of the file.
        seconds: after which no section begins.
    """

    def __init__(self, about: dict[str, Any], folder: Path, seconds: float) -> None:
        self._about, self._folder = about, folder
        self._began, self._seconds = time.monotonic(), seconds
        self._sections: dict[str, Any] = {}
        self.failed: list[str] = []

    def section(self, name: str, measure: Callable[[dict[str, Any]], None]) -> None:
        """Measure a section, unless time is over; of one that fails, what it found is kept.

        Args:
            measure: fills in what it is given.
        """
        at = time.monotonic() - self._began
        print(f"[{at:6.1f} s] {name}", flush=True)
        found = self._sections[name] = {}
        if at > self._seconds:
            found["left_out"] = f"{at:.0f} s were over"
        else:
            try:
                measure(found)
            except (Exception, SystemExit) as error:
                traceback.print_exc()
                found["failed"] = f"{type(error).__name__}: {error}"[:300]
                self.failed.append(name)
        write("decode_parts", {**self._about, "sections": self._sections}, self._folder)


def main(given: Sequence[str] | None = None) -> None:
    """Measure all sections, as far as time allows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--shape", choices=list(SHAPES), default="llama3_8b")
    parser.add_argument("--context", choices=list(decoding.CONTEXTS), default="4K")
    parser.add_argument("--seconds", type=float, default=240, help="begin no section after them")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    options = parser.parse_args(given)
    about = {
        "benchmark": "decode_parts",
        "about": circumstances(decoding.DEVICE, drawn(options.shape, SEED)),
        "model": f"{options.shape}, random weights, bf16, half of the heads streaming",
        "context": options.context,
    }
    parts = Parts(about, options.out, options.seconds)
    num_tokens = decoding.CONTEXTS[options.context]
    shape = SHAPES[options.shape]
    model = draw_model(shape, num_tokens + 4096, streaming=True, device=decoding.DEVICE)
    document = calibrated(model, draw_document(model, num_tokens))
    for name in options.only:
        if name == "first":
            parts.section(name, partial(first_parts, model, document))
        else:
            parts.section(name, partial(token_parts, model, document, WAYS[name]))
    if parts.failed:
        raise SystemExit(f"Failed: {', '.join(parts.failed)}")


def token_parts(
    model: LoadedModel, document: DocumentCache, way: DecodeConfig, found: dict[str, Any]
) -> None:
    """A token in one way to decode."""
    graphs = DecodeGraphPool(model.model, model.spec, way)
    decoding.token_ms(model, document, graphs)  # compiles, and captures
    times, state, _ = decoding.token_ms(model, document, graphs)
    found |= {"token_ms": percentiles(times), "loaded": state.meter.share(1)}
    tell_clock(found["token_ms"])
    capacity = QUESTION_TOKENS + ANSWER_TOKENS
    with graphs.acquire(document, capacity) as graph:
        if graph is None or graph.pool is None:
            raise RuntimeError("Nothing was captured.")
        if graphs.effective_config != way:
            raise RuntimeError(f"{way} was asked for, {graphs.effective_config} works.")
        graph.begin(decoding_question(model, document).keys_and_values())
        run_one = one_pass(graph, model, document)
        found["device_ms"] = device_ms(run_one, PASSES)
        found["asking_ms"] = percentiles([host_ms(run_one) for _ in range(PASSES)])
        asking = found["asking_ms"]["p50"]
        print(f"  device {found['device_ms']:.3f} ms, asking {asking:.3f} ms", flush=True)
        found |= kernels(run_one)


def decoding_question(model: LoadedModel, document: DocumentCache) -> QuestionState:
    """A question after its prefill."""
    state = opened(model, document)
    ask(model, state)
    return state


def one_pass(
    graph: DecodeGraph, model: LoadedModel, document: DocumentCache
) -> Callable[[], object]:
    """A pass at the document's budget that nobody waits for."""
    token, meter = question_ids(model)[:1], ReadMeter()
    thresholds = document.curves.decode.at(budget_of(document))
    return lambda: graph.run(token, thresholds, meter)


def device_ms(call: Callable[[], object], calls: int) -> float:
    """Milliseconds of a call on the device, of several asked for back to back."""
    call()
    begin, end = (
        torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        for _ in range(2)
    )
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end) / calls)


def host_ms(call: Callable[[], object]) -> float:
    """Milliseconds of the host for a call to an idle device that it does not wait for."""
    torch.cuda.synchronize()
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1e3


def first_parts(model: LoadedModel, document: DocumentCache, found: dict[str, Any]) -> None:
    """A question's prefill and its first token."""

    def call() -> float:
        return decoding.first_token_ms(model, document)

    for _ in range(4):
        call()
    found["token_ms"] = percentiles([call() for _ in range(FIRSTS)])
    tell_clock(found["token_ms"])
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(PROFILED):
        call()
    profiler.disable()
    found["host"] = host_lines(profiler)
    print(*found["host"], sep="\n", flush=True)
    found |= kernels(call)


def kernels(call: Callable[[], object]) -> dict[str, Any]:
    """What the profiler says of a call's kernels."""
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(PROFILED):
            call()
        torch.cuda.synchronize()
    rows = kernel_times(profiler.key_averages(), PROFILED)
    for name, group in grouped(rows).items():
        print(f"  {name}: {group['us']:.1f} us in {group['launches']:.0f} launches")
    for row in rows[:SHOWN]:
        each = row.us / max(row.launches, 1.0)
        print(f"  {row.us:9.1f} us {row.launches:6.1f} x {each:7.2f}  {row.name[:90]}", flush=True)
    return {"groups_us": grouped(rows), "kernels": [asdict(row) for row in rows[:SHOWN]]}


def kernel_times(averages: Iterable[Counted], calls: int) -> list[KernelTime]:
    """By time, the longest first, of one call."""
    rows = [KernelTime(a.key, a.self_device_time_total / calls, a.count / calls) for a in averages]
    return sorted((row for row in rows if row.us > 0), key=lambda row: -row.us)


def grouped(rows: Iterable[KernelTime]) -> dict[str, dict[str, float]]:
    """Microseconds and launches by group of kernels."""
    groups = {name: {"us": 0.0, "launches": 0.0} for name in (*GROUPS, "others")}
    for row in rows:
        words = row.name.lower()
        fitting = (name for name, known in GROUPS.items() if any(word in words for word in known))
        group = groups[next(fitting, "others")]
        group["us"] += row.us
        group["launches"] += row.launches
    return groups


def host_lines(profiler: cProfile.Profile) -> list[str]:
    """What the host spends most time in, a line each."""
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(SHOWN)
    lines = text.getvalue().splitlines()
    head = next(index for index, line in enumerate(lines) if "tottime" in line)
    return [line.rstrip()[:130] for line in lines[head:] if line.strip()]


def tell_clock(ms: dict[str, float]) -> None:
    """Print times by the host's clock."""
    told = ", ".join(f"{name} {ms[name]:.3f}" for name in ("p20", "p50", "p80"))
    print(f"  host clock {told} ms", flush=True)


if __name__ == "__main__":
    main()
