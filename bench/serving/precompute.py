"""Reading a 128K document on one GPU: from its tokens to the packed artifact in host memory.

    python -m bench.serving.precompute --out DIR
    python -m bench.serving.precompute --dry --tokens 3000 --plans quarter --out DIR

A Llama-3-8B-shaped model with random weights in bf16, all heads retrieval heads (`all`), then a
quarter of them with the others streaming (`quarter`). The first run of each is told apart: kernels
are chosen in it. No figure of a plan is given before a short document, read, packed and unpacked,
answered at budget `exact` as the model's own full attention does. `host` tells what bounds packing:
how fast a GPU's memory arrives in pinned memory, and how fast memory is written the first time. The
file is written after each part; `--dry` goes through all of it with a tiny model on a CPU.
"""

import argparse
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench import RESULTS
from bench.random_llama import SEED, ModelShape
from bench.serving.prefill import build_model, transformers_attention
from bench.serving.synthetic import draw_model
from bench.timing import now, seconds_of
from engine.attend.question import open_question
from engine.document.artifact import pack, unpack
from engine.document.budget import EXACT
from engine.document.safetensors_writer import STAGE_BYTES
from engine.model.attention import forward
from engine.model.head_plan import plan_all
from engine.model.loader import LoadedModel
from precompute.build import precompute_document
from precompute.config import PrecomputeConfig
from training.record import circumstances, drawn, percentiles, write

PLANS = ("all", "quarter")
PHASES = ("prefill", "cluster", "calibrate", "pack")
CHECKED_TOKENS = 13_000
# Relative, of logits in bf16 after all layers; two libraries' attention in the model's own pass may
# differ by half as much as well. A wrong head would be off by about 1.
TOLERANCE = 0.1
QUESTION = "Who sold 7 maps at the harbour, and what did the library count?"
WORDS = ("lamps", "copper coins", "letters", "grey horses", "maps", "harbour", "old mill", "garden")
PROBED_BYTES = 1 << 32  # of disk and memory, to know how fast they are
DRY, DRY_PROBED = ModelShape(32_000, 64, 96, 2, 4, 2), 1 << 24


def main(given: Sequence[str] | None = None) -> None:
    """Check, measure, print and write the result, plan by plan."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tokens", type=int, default=131_072)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--chunk", type=int, default=PrecomputeConfig.chunk_tokens)
    parser.add_argument("--repeats", type=int, default=1, help="after the first run")
    parser.add_argument("--plans", nargs="+", choices=PLANS, default=PLANS)
    parser.add_argument(
        "--disk", type=Path, default=None, help="a folder on the disk to publish to"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    parser.add_argument("--dry", action="store_true", help="a tiny model on a CPU")
    options = parser.parse_args(given)
    dry, settings = options.dry, PrecomputeConfig(chunk_tokens=options.chunk)
    if dry:
        settings = replace(settings, num_probes=8)
    model = dry_model(options.tokens) if dry else build_model(options.layers, options.tokens)
    text = draw_text(model, options.tokens)
    report = ProgressReport(
        {
            "benchmark": "precompute",
            **circumstances(model.device.type, drawn("tiny" if dry else "llama3_8b", SEED)),
            "model": "tiny" if dry else "Llama-3-8B-shaped, random weights, bf16",
            "layers": model.spec.num_layers,
            "document_tokens": len(model.prompt.encode_document(text).ids),
            "chunk_tokens": settings.chunk_tokens,
        },
        options.out,
    )
    probed = DRY_PROBED if dry else PROBED_BYTES
    report.add("host", "memory", host_memory(probed, model.device))
    for name in options.plans:
        chosen = replace(model, plan=plan_all(model.spec)) if name == "all" else model
        report.add("correctness", name, check(chosen, settings, options.tokens))
        found, files = measure(chosen, text, settings, options.repeats)
        report.add("plans", name, found)
        report.add("publishing", name, publish(files, options.disk, probed))


class ProgressReport:
    """The result as it grows, on file.

    Args:
        about: goes into the file.
        folder: of the file.
    """

    def __init__(self, about: dict[str, Any], folder: Path) -> None:
        self._result, self._folder = about, folder
        self._began = time.monotonic()

    def add(self, part: str, name: str, found: dict[str, Any]) -> None:
        """Print what was found, and write all that is there so far."""
        print(f"[{time.monotonic() - self._began:6.1f} s] {part}, {name}: {found}", flush=True)
        self._result.setdefault(part, {})[name] = found
        write("precompute", self._result, self._folder)


def dry_model(num_tokens: int) -> LoadedModel:
    """A tiny model on a CPU, half of whose heads stream."""
    return draw_model(DRY, num_tokens + 1024, streaming=True, device="cpu")


def draw_text(model: LoadedModel, num_tokens: int, seed: int = 0) -> str:
    """Sentences about people, numbers and things, cut where `num_tokens` tokens end."""
    draw, text = Random(seed), ""
    sentences = []
    for _ in range(1 + num_tokens // 6):
        name = "".join(draw.choices("abdefgiklmnorstu", k=draw.randint(3, 9))).title()
        one, other = draw.sample(WORDS, 2)
        sentences.append(f"{name} sold {draw.randint(2, 9999)} {one} near the {other}.")
    text = " ".join(sentences)
    encoded = model.prompt.encode_document(text)
    if len(encoded.ids) < num_tokens:
        raise SystemExit(f"The text has {len(encoded.ids)} tokens: too few.")
    return text[: int(encoded.offsets[num_tokens - 1, 0])]


# -- one reading ---------------------------------------------------------------------------------


@dataclass
class Stopwatch:
    """Hears a reading's progress, and when each phase ended, the GPU's work included."""

    ended: dict[str, float] = field(default_factory=dict)
    started: float = 0.0

    def __call__(self, phase: str, done: int, total: int) -> None:
        if phase == "prefill" and done == 0:
            self.started = now()
        if done == total:
            self.ended[phase] = now()
            print(f"  {phase} ended at {self.ended[phase] - self.started:.2f} s", flush=True)

    def seconds(self) -> dict[str, float]:
        """Of each phase, and of all from the first token on."""
        marks = [self.started, *(self.ended[phase] for phase in PHASES)]
        found = {phase: marks[i + 1] - marks[i] for i, phase in enumerate(PHASES)}
        return {**found, "total": marks[-1] - marks[0]}


Files = list[tuple[str, memoryview]]


def read(
    model: LoadedModel, text: str, settings: PrecomputeConfig
) -> tuple[dict[str, Any], Files, Stopwatch]:
    """Read a document; its manifest and its files, all of them in host memory."""
    watch = Stopwatch()
    document = precompute_document(model, text, [(1, 0, len(text))], settings, watch)
    manifest, packed = pack(document, settings.dtype)
    files = list(packed)
    watch("pack", 0, 0)
    return manifest, files, watch


def measure(
    model: LoadedModel, text: str, settings: PrecomputeConfig, repeats: int
) -> tuple[dict[str, Any], Files]:
    """Seconds of each phase over some readings after a first one, and peak memory; the files."""
    weights = _emptied()
    _, files, watch = read(model, text, settings)
    first = watch.seconds()
    print(f"first run: {first}", flush=True)
    peak, runs = torch.cuda.max_memory_allocated(), []
    for _ in range(repeats):
        files.clear()
        _, files, watch = read(model, text, settings)
        runs.append(watch.seconds())
    num_bytes = sum(data.nbytes for _, data in files)
    seconds = {name: percentiles([run[name] for run in runs or [first]]) for name in first}
    found = {
        "first_seconds": first,
        "seconds": seconds,
        "artifact_gib": num_bytes / 2**30,
        "packed_gib_per_second": num_bytes / seconds["pack"]["p50"] / 2**30,
        "peak_gib": peak / 2**30,
        "peak_gib_beyond_weights": (peak - weights) / 2**30,
    }
    return found, files


def _emptied() -> int:
    """Start counting peak memory anew; bytes held already."""
    torch.cuda.empty_cache()
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


# -- correctness ---------------------------------------------------------------------------------


def check(model: LoadedModel, settings: PrecomputeConfig, longest: int) -> dict[str, float]:
    """Read a short document and answer from its artifact, beside the model's own attention.

    Raises: SystemExit if tensors or, with retrieval heads alone, logits differ.
    """
    text = draw_text(model, min(CHECKED_TOKENS, longest))
    manifest, files, _ = read(model, text, settings)
    document = unpack(manifest, files, device=model.device, dtype=model.dtype)
    for layer in document.layers:
        order = layer.positions.long().sort(dim=1).values
        if not torch.equal(
            order, torch.arange(layer.num_tokens, device=order.device).expand_as(order)
        ):
            raise SystemExit("A token was lost or stored twice.")
    question = model.prompt.encode_question(QUESTION).to(model.device)
    state = open_question(document, EXACT)
    ours = forward(model.model, question, state.position, state)[-1]
    ids = torch.cat((document.ids.to(model.device), question))
    theirs = whole_logits(model, ids, "flash")
    noise = relative(whole_logits(model, ids, "cudnn"), theirs) if ids.is_cuda else 0.0
    found = {"logits_error": relative(ours, theirs), "library_error": noise, "tolerance": TOLERANCE}
    if model.plan.ratio == 1 and not found["logits_error"] < max(TOLERANCE, 2 * noise):
        raise SystemExit(f"The artifact does not answer as the model does: {found}")
    return found


def relative(found: Tensor, wanted: Tensor) -> float:
    """Norm of the difference over the norm."""
    return float((found - wanted).norm() / wanted.norm())


@torch.inference_mode()
def whole_logits(model: LoadedModel, ids: Tensor, back_end: str) -> Tensor:
    """The model's own last logits over all tokens at once."""
    module: Any = model.model
    with transformers_attention(model, back_end):
        logits: Tensor = module(input_ids=ids[None], use_cache=False, logits_to_keep=1).logits
    return logits[0, -1].float()


# -- the disk ------------------------------------------------------------------------------------


def publish(files: Files, disk: Path | None, probed: int) -> dict[str, float]:
    """Write an artifact's files and sync each, as storage does, beside one plain large file."""
    num_bytes = sum(data.nbytes for _, data in files)
    plain = _joined(files, min(probed, num_bytes))
    with TemporaryDirectory(dir=disk) as folder:
        alone = _write(Path(folder), [("plain", plain)])
        seconds = _write(Path(folder), files)
    return {
        "seconds": seconds,
        "gib_per_second": num_bytes / seconds / 2**30,
        "disk_gib_per_second": len(plain) / alone / 2**30,
    }


def _joined(files: Files, num_bytes: int) -> memoryview:
    """The first bytes of all files, one behind the other."""
    parts, found = np.empty(num_bytes, dtype=np.uint8), 0
    for _, data in files:
        part = data[: num_bytes - found]
        parts[found : found + len(part)] = part
        found += len(part)
    return parts.data


def _write(folder: Path, files: Sequence[tuple[str, memoryview]]) -> float:
    """Seconds to write and sync; the files are removed again."""
    started = time.perf_counter()
    for name, data in files:
        with (folder / name).open("wb", buffering=0) as file:
            written = 0
            while written < len(data):  # one call writes 2 GiB at most
                written += file.write(data[written:]) or 0
            os.fsync(file.fileno())
    seconds = time.perf_counter() - started
    for name, _ in files:
        (folder / name).unlink()
    return seconds


# -- memory --------------------------------------------------------------------------------------


def host_memory(num_bytes: int, device: torch.device) -> dict[str, float]:
    """GiB/s: memory written the first time and again, and from a GPU into pinned memory."""
    fresh = torch.from_numpy(np.empty(num_bytes, dtype=np.uint8))
    rates = {"first_written": _rate(lambda: fresh.fill_(1), num_bytes)}
    rates["written_again"] = _rate(lambda: fresh.fill_(2), num_bytes)
    if device.type == "cuda":
        pinned = torch.empty(STAGE_BYTES, dtype=torch.uint8, pin_memory=True)
        there = torch.zeros_like(pinned, device=device)
        pinned.copy_(there)
        rates["from_gpu"] = _rate(lambda: pinned.copy_(there), STAGE_BYTES)
    return rates


def _rate(work: Callable[[], object], num_bytes: int) -> float:
    """GiB/s of a piece of work."""
    return num_bytes / seconds_of(work) / 2**30


if __name__ == "__main__":
    main()
