"""Training gates of a Llama-3-8B-shaped model: seconds a step and peak memory.

    python -m bench.accuracy.duo_gates --tokens 8192 32768

The weights are random, which changes neither time nor memory. One optimiser step is one passkey
document: full attention without gradients, then gated attention with them. The file is written
after each length.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from bench import RESULTS
from bench.random_llama import SEED, SHAPES, ModelShape, random_llama
from engine.model.loader import LoadedModel, assemble
from precompute.heads.duo.config import DuoConfig
from precompute.heads.duo.train import GateTraining
from reader import WEIGHTS
from training.record import circumstances, drawn, percentiles, write

GIB = 1 << 30
WARM_UP = 1  # steps whose time does not count
TRIED = SHAPES | {"tiny": ModelShape(128_256, 128, 256, 2, 4, 2)}


def main(given: Sequence[str] | None = None) -> None:
    """Check, measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shape", choices=TRIED, default="llama3_8b")
    parser.add_argument("--tokenizer", default=str(WEIGHTS))
    parser.add_argument("--tokens", type=int, nargs="+", default=[8192])
    parser.add_argument("--steps", type=int, default=3, help="timed, of each length")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    options = parser.parse_args(given)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = random_model(options.shape, options.tokenizer, device, max(options.tokens))
    lengths: list[dict[str, Any]] = []
    result = {
        "benchmark": "duo_gates",
        **circumstances(device, drawn(options.shape, SEED)),
        "shape": options.shape,
        "dtype": str(model.dtype),
        "lengths": lengths,
    }
    for tokens in options.tokens:
        lengths.append(measure(model, tokens, options.steps))
        print(lengths[-1], write("duo_gates", result, options.out), flush=True)


def random_model(shape: str, tokenizer: str, device: str, longest: int) -> LoadedModel:
    """A model of that shape with random weights, as the engine loads it."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    model = random_llama(TRIED[shape], longest, device, dtype)
    return assemble(model, AutoTokenizer.from_pretrained(tokenizer), name=shape, fingerprint="")


def measure(model: LoadedModel, tokens: int, steps: int) -> dict[str, Any]:
    """Seconds of a step, and the most memory that it took."""
    config = DuoConfig(steps=WARM_UP + steps, min_tokens=tokens, max_tokens=tokens)
    training = GateTraining.begin(model, config)
    seconds = []
    if model.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    for _ in range(WARM_UP + steps):
        start = time.perf_counter()
        training.take_step()
        if model.device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        print(f"  {tokens} tokens, a step: {seconds[-1]:.2f} s", flush=True)
    check(training.gates)
    return {
        "document_tokens": tokens,
        "seconds_per_step": percentiles(seconds[WARM_UP:]),
        "peak_gib": torch.cuda.max_memory_allocated() / GIB
        if model.device.type == "cuda"
        else None,
    }


def check(gates: torch.Tensor) -> None:
    """Gates must have moved, and stay in [0, 1], or no figure is given."""
    inside = bool(((gates >= 0) & (gates <= 1)).all())
    if not inside or not bool((gates < 1).any()):
        raise SystemExit("The gates did not move as gates do.")


if __name__ == "__main__":
    main()
