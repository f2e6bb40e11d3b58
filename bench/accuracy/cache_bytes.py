"""Bytes of a document's dual cache, in files and in tensors, over those of a full KV cache.

    python -m bench.accuracy.cache_bytes

A full KV cache is the keys and values of every head and token in the same dtype, and nothing else;
the document's cache also counts centroids, positions, offsets, token ids and text.
"""

import argparse
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bench import RESULTS
from bench.serving.first_token import document_of
from engine.config import ModelConfig
from engine.document.artifact import pack, unpack
from engine.document.cache import DocumentCache
from engine.model.head_plan import ALL, HeadPlan, write_plan
from engine.model.loader import LoadedModel, load_model
from precompute.build import precompute_document
from precompute.config import PrecomputeConfig
from precompute.heads.base import num_chosen
from reader import HANDBOOK, WEIGHTS
from training.record import circumstances, write

SEED = 0


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default=str(WEIGHTS))
    parser.add_argument("--tokens", type=int, default=32_768)
    parser.add_argument("--ratio", type=float, default=0.25)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    arguments = parser.parse_args()
    result = measure(arguments.model, arguments.tokens, arguments.ratio, arguments.device)
    print(write("cache_bytes", result, arguments.out).read_text())


def measure(path: str, num_tokens: int, ratio: float, device: str) -> dict[str, Any]:
    """Read a document under a plan of that ratio, store it and load it again."""
    model = load_with_ratio(path, ratio, device)
    text = document_of(model, (HANDBOOK / "handbook.md").read_text(), num_tokens)
    # Probes settle thresholds, which are a few numbers in the manifest.
    settings = PrecomputeConfig(num_probes=8)
    document = precompute_document(model, text, [(1, 0, len(text))], settings, print_progress)
    manifest, packed = pack(document, settings.dtype)
    with TemporaryDirectory() as folder:
        for name, data in packed:
            (Path(folder) / name).write_bytes(data)
        paths = sorted(Path(folder).iterdir())
        in_files = sum(file.stat().st_size for file in paths)
        files = ((file.name, file.read_bytes()) for file in paths)
        stored = unpack(manifest, files, device=model.device, dtype=getattr(torch, settings.dtype))
    check(document, stored)
    full = full_bytes(model, num_tokens, settings.dtype)
    return {
        "benchmark": "cache_bytes",
        **circumstances(device, model.weights),
        "document_tokens": document.num_tokens,
        "dtype": settings.dtype,
        "retrieval_ratio": model.plan.ratio,
        "num_sinks": model.plan.num_sinks,
        "window": model.plan.window,
        "full_kv_bytes": full,
        "file_bytes": in_files,
        "tensor_bytes": stored.num_bytes,
        "kv_bytes": stored.kv_bytes,
        "files_over_full": in_files / full,
        "tensors_over_full": stored.num_bytes / full,
    }


def load_with_ratio(path: str, ratio: float, device: str) -> LoadedModel:
    """The model with a random share of its KV heads, rounded up, as retrieval heads.

    Which heads they are changes answers, and no byte.
    """
    shape = [
        layer.num_kv_heads
        for layer in load_model(ModelConfig(path, device=device, heads=ALL)).spec.layers
    ]
    heads = [(layer, head) for layer, number in enumerate(shape) for head in range(number)]
    chosen = set(Random(SEED).sample(heads, num_chosen(len(heads), ratio)))
    retrieval = tuple(tuple((i, j) in chosen for j in range(shape[i])) for i in range(len(shape)))
    with TemporaryDirectory() as folder:
        file = Path(folder) / "plan.json"
        write_plan(HeadPlan("file", retrieval), file)
        return load_model(ModelConfig(path, device=device, heads=str(file)))


def full_bytes(model: LoadedModel, num_tokens: int, dtype: str) -> int:
    """Keys and values of all heads."""
    numbers = sum(2 * layer.num_kv_heads * layer.head_dim for layer in model.spec.layers)
    size: torch.dtype = getattr(torch, dtype)
    return numbers * num_tokens * size.itemsize


def check(document: DocumentCache, stored: DocumentCache) -> None:
    """What was loaded must be what was read, or no figure is given."""
    for ours, theirs in zip(document.layers, stored.layers, strict=True):
        for one, other in zip(ours.tensors(), theirs.tensors(), strict=True):
            if not torch.equal(one.to(other.dtype), other):
                raise SystemExit("The stored cache is not the one that was read.")


def print_progress(phase: str, done: int, total: int) -> None:
    """A line that overwrites itself."""
    print(f"\r{phase} {done} of {total}      ", end="", flush=True)


if __name__ == "__main__":
    main()
