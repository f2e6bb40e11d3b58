"""Reading a 128K document on one GPU: from its tokens to the packed artifact in host memory.

    python -m bench.precompute --out DIR

A Llama-3-8B-shaped model with random weights in bf16, all heads retrieval heads (`all`), then a
quarter of them with the others streaming (`quarter`). The first run of each is told apart: kernels
are chosen in it. No figure is given before a short document, read, packed and unpacked, answered at
budget `exact` as the model's own full attention does.
"""

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from bench.prefill import build_model, transformers_attention
from bench.record import circumstances, percentiles, write
from engine.answer import open_question
from engine.artifact import pack, unpack
from engine.attention import forward
from engine.budget import EXACT
from engine.model import LoadedModel
from engine.plan import plan_all
from precompute.read import read_document
from precompute.settings import ReadSettings

PHASES = ("prefill", "cluster", "calibrate", "pack")
CHECKED_TOKENS, TOLERANCE = 13_000, 0.05  # relative, of logits in bf16
QUESTION = "Who sold 7 maps at the harbour, and what did the library count?"
WORDS = ("lamps", "copper coins", "letters", "grey horses", "maps", "harbour", "old mill", "garden")
PROBED_BYTES = 1 << 32  # written to know the disk


def main() -> None:
    """Check, measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tokens", type=int, default=131_072)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--chunk", type=int, default=ReadSettings.chunk_tokens)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--disk", type=Path, default=None, help="a folder on the disk to publish to"
    )
    parser.add_argument("--out", type=Path, default=None, help="folder of the result")
    arguments = parser.parse_args()
    quarter = build_model(arguments.layers, arguments.tokens)
    plans = {"all": replace(quarter, plan=plan_all(quarter.spec)), "quarter": quarter}
    settings = ReadSettings(chunk_tokens=arguments.chunk)
    correctness = {name: check(model, settings) for name, model in plans.items()}
    print(correctness, flush=True)
    text = draw_text(quarter, arguments.tokens)
    found, published = {}, {}
    for name, model in plans.items():
        found[name], files = measure(model, text, settings, arguments.repeats)
        print(name, found[name], flush=True)
        published[name] = publish(files, arguments.disk)
    result = {
        "benchmark": "precompute",
        **circumstances("cuda"),
        "model": "Llama-3-8B-shaped, random weights, bf16",
        "layers": arguments.layers,
        "document_tokens": len(quarter.prompt.encode_document(text).ids),
        "chunk_tokens": settings.chunk_tokens,
        "correctness": correctness,
        "plans": found,
        "publishing": published,
    }
    print(write("precompute", result, *filter(None, [arguments.out])).read_text())


def draw_text(model: LoadedModel, num_tokens: int) -> str:
    """Sentences about people, numbers and things, cut where `num_tokens` tokens end."""
    draw, text = Random(0), ""
    sentences = []
    for _ in range(num_tokens // 6):
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
            self.started = self.now()
        if done == total:
            self.ended[phase] = self.now()

    def now(self) -> float:
        """Seconds, when the GPU is through."""
        torch.cuda.synchronize()
        return time.perf_counter()

    def seconds(self) -> dict[str, float]:
        """Of each phase, and of all from the first token on."""
        marks = [self.started, *(self.ended[phase] for phase in PHASES)]
        found = {phase: marks[i + 1] - marks[i] for i, phase in enumerate(PHASES)}
        return {**found, "total": marks[-1] - marks[0]}


Files = list[tuple[str, memoryview]]


def read(
    model: LoadedModel, text: str, settings: ReadSettings
) -> tuple[dict[str, Any], Files, Stopwatch]:
    """Read a document; its manifest and its files, all of them in host memory."""
    watch = Stopwatch()
    document = read_document(model, text, [(1, 0, len(text))], settings, watch)
    manifest, packed = pack(document, settings.dtype)
    files = list(packed)
    watch("pack", 0, 0)
    return manifest, files, watch


def measure(
    model: LoadedModel, text: str, settings: ReadSettings, repeats: int
) -> tuple[dict[str, Any], Files]:
    """Seconds of each phase over some readings after a first one, and peak memory; the files."""
    weights = _emptied()
    first = read(model, text, settings)[2].seconds()
    peak, runs, files = torch.cuda.max_memory_allocated(), [], Files()
    for _ in range(max(2, repeats)):
        files.clear()
        _, files, watch = read(model, text, settings)
        runs.append(watch.seconds())
    found = {
        "first_seconds": first,
        "seconds": {name: percentiles([run[name] for run in runs]) for name in first},
        "artifact_gib": sum(data.nbytes for _, data in files) / 2**30,
        "peak_gib": peak / 2**30,
        "peak_gib_beyond_weights": (peak - weights) / 2**30,
    }
    return found, files


def _emptied() -> int:
    """Start counting peak memory anew; bytes held already."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


# -- correctness ---------------------------------------------------------------------------------


def check(model: LoadedModel, settings: ReadSettings) -> dict[str, float]:
    """Read a short document and answer from its artifact, beside the model's own attention.

    Raises: SystemExit if tensors or, with retrieval heads alone, logits differ.
    """
    text = draw_text(model, CHECKED_TOKENS)
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
    theirs = whole_logits(model, ids)
    found = {"logits_error": float((ours - theirs).norm() / theirs.norm()), "tolerance": TOLERANCE}
    if model.plan.ratio == 1 and not found["logits_error"] < TOLERANCE:
        raise SystemExit(f"The artifact does not answer as the model does: {found}")
    return found


@torch.inference_mode()
def whole_logits(model: LoadedModel, ids: Tensor) -> Tensor:
    """The model's own last logits over all tokens at once."""
    module: Any = model.model
    with transformers_attention(model, "flash"):
        logits: Tensor = module(input_ids=ids[None], use_cache=False, logits_to_keep=1).logits
    return logits[0, -1].float()


# -- the disk ------------------------------------------------------------------------------------


def publish(files: Files, disk: Path | None) -> dict[str, float]:
    """Write an artifact's files and sync each, as storage does, beside one plain large file."""
    with TemporaryDirectory(dir=disk) as folder:
        plain = min(_write(Path(folder), _plain()) for _ in range(2))
        seconds = _write(Path(folder), files)
    num_bytes = sum(data.nbytes for _, data in files)
    return {
        "seconds": seconds,
        "gib_per_second": num_bytes / seconds / 2**30,
        "disk_gib_per_second": PROBED_BYTES / plain / 2**30,
    }


def _plain() -> Files:
    noise = torch.randint(0, 256, (PROBED_BYTES,), dtype=torch.uint8)
    return [("plain", noise.numpy().data)]


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


if __name__ == "__main__":
    main()
