"""Prefill of a 128K document with 25 % retrieval heads, against full attention.

    python -m bench.serving.prefill --out DIR

A Llama-3-8B-shaped model with random weights, on one GPU. The baseline is the fastest of this
project's chunked prefill in which every head is a retrieval head, and of transformers' own forward
pass over each back end of scaled_dot_product_attention. No figure is given before the parts of
attention and a short prefill were compared with their definitions.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import sdpa_kernel
from transformers import AutoTokenizer, DynamicCache

from bench import RESULTS
from bench.kernels.libraries import LIBRARIES
from bench.random_llama import SEED as WEIGHTS_SEED
from bench.random_llama import SHAPES, random_llama
from bench.serving.prefill_parts import check_parts, measure_parts
from bench.timing import seconds_of
from engine.model.attention import NAME, AttentionCall, forward
from engine.model.head_plan import HeadPlan, plan_all
from engine.model.loader import LoadedModel, assemble
from precompute.prefill import PrefilledLayer, prefill
from reader import WEIGHTS
from training.record import circumstances, drawn, percentiles, write

TOKENIZER = str(WEIGHTS)  # any will do: only ids are read
RATIO, SEED = 0.25, 0
CHECKED_TOKENS, CHECKED_CHUNK, CHECKED_LAYER = 9000, 4096, 6
TOLERANCE = 0.03  # relative, of that layer's keys in bf16


def main() -> None:
    """Check, measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tokens", type=int, default=131_072)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--chunks", type=int, nargs="+", default=[8192, 16_384])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    arguments = parser.parse_args()
    parts = {"errors": check_parts(), "milliseconds": measure_parts(arguments.tokens)}
    print(parts, flush=True)
    dual = build_model(arguments.layers, arguments.tokens)
    full = replace(dual, plan=plan_all(dual.spec))
    correctness = check_prefill(dual, full)
    print(correctness, flush=True)
    result = {
        "benchmark": "prefill",
        **circumstances("cuda", drawn("llama3_8b", WEIGHTS_SEED)),
        "model": "Llama-3-8B-shaped, random weights, bf16",
        "layers": arguments.layers,
        "document_tokens": arguments.tokens,
        "retrieval_ratio": dual.plan.ratio,
        "num_sinks": dual.plan.num_sinks,
        "window": dual.plan.window,
        "parts": parts,
        "correctness": correctness,
        **measure(dual, full, arguments.tokens, arguments.chunks, arguments.repeats),
    }
    print(write("prefill", result, arguments.out).read_text())


def build_model(num_layers: int, context_length: int) -> LoadedModel:
    """Random weights; a quarter of the KV heads, drawn from all layers, are retrieval heads."""
    shape = replace(SHAPES["llama3_8b"], num_layers=num_layers)
    heads = [(layer, head) for layer in range(num_layers) for head in range(shape.kv_heads)]
    chosen = set(Random(SEED).sample(heads, round(RATIO * len(heads))))
    retrieval = tuple(
        tuple((layer, head) in chosen for head in range(shape.kv_heads))
        for layer in range(num_layers)
    )
    return assemble(
        random_llama(shape, context_length + 1024, "cuda"),
        AutoTokenizer.from_pretrained(TOKENIZER),
        name="Llama-3-8B-shaped",
        fingerprint="random",
        plan=HeadPlan("file", retrieval),
    )


def random_ids(num_tokens: int) -> Tensor:
    """A document of random tokens."""
    generator = torch.Generator().manual_seed(SEED)
    return torch.randint(0, 128_000, (num_tokens,), generator=generator)


# -- correctness ---------------------------------------------------------------------------------


class MaskedAttention:
    """What prefill under a plan is, in one pass and by one mask a head."""

    def __init__(self, plan: HeadPlan, at: Tensor) -> None:
        causal = at[:, None] >= at
        near = at[:, None] - at < plan.window
        self._masks = {True: causal, False: causal & (near | (at < plan.num_sinks))}
        self._retrieval = [sorted(layer, reverse=True) for layer in plan.retrieval]
        self.keys: list[Tensor] = []

    def attend(self, call: AttentionCall) -> Tensor:
        """Full scores, masked, head by head."""
        self.keys.append(call.key)
        group = call.query.shape[0] // call.key.shape[0]
        outs = []
        for head, query in enumerate(call.query):
            key, value = call.key[head // group], call.value[head // group]
            scores = query.float() @ key.float().T * call.scale
            mask = self._masks[self._retrieval[call.layer][head // group]]
            weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
            outs.append((weights @ value.float()).to(query.dtype))
        return torch.stack(outs)


def check_prefill(dual: LoadedModel, full: LoadedModel) -> dict[str, float]:
    """Compare a short prefill with its definition; full attention must be told apart from it."""
    ids, plan = random_ids(CHECKED_TOKENS), dual.plan
    reference = MaskedAttention(plan, torch.arange(len(ids), device=dual.device))
    forward(dual.model, ids.to(dual.device), 0, reference)
    wanted, split = reference.keys[CHECKED_LAYER], plan.num_retrieval(CHECKED_LAYER)
    kept, whole = (
        prefill(model, ids, CHECKED_CHUNK, lambda _: None)[CHECKED_LAYER] for model in (dual, full)
    )
    if split == 0 or kept.streaming is None:
        raise SystemExit("The layer has heads of one kind alone: not all would be checked.")
    seen = torch.cat((wanted[:, : plan.num_sinks], wanted[:, -plan.window :]), dim=1)[split:]
    found = {
        "retrieval_error": _relative(kept.keys, wanted[:split]),
        "streaming_error": _relative(kept.streaming.keys[:, : seen.shape[1]], seen),
        "full_attention_error": _relative(whole.keys, wanted),
        "tolerance": TOLERANCE,
    }
    worst = max(found["retrieval_error"], found["streaming_error"])
    if not worst < TOLERANCE < found["full_attention_error"] / 2:
        raise SystemExit(f"Prefill is not what it is defined to be: {found}.")
    return found


def _relative(ours: Tensor, theirs: Tensor) -> float:
    return float((ours.float() - theirs.float()).norm() / theirs.float().norm())


# -- time ----------------------------------------------------------------------------------------


def measure(
    dual: LoadedModel, full: LoadedModel, num_tokens: int, chunks: list[int], repeats: int
) -> dict[str, Any]:
    """Time both ways in turn, each at its best size of chunks, and the library's way."""
    ids = random_ids(num_tokens)

    def ours(model: LoadedModel, chunk: int) -> Callable[[], tuple[PrefilledLayer, ...]]:
        return lambda: prefill(model, ids, chunk, lambda _: None)

    tried: dict[str, dict[int, dict[str, float]]] = {"dual": {}, "full": {}}
    for chunk in chunks:
        for name, model in (("dual", dual), ("full", full)):
            cold, warm = seconds_of(ours(model, chunk)), seconds_of(ours(model, chunk))
            tried[name][chunk] = {"cold": cold, "warm": warm}
            print(name, chunk, tried[name][chunk], flush=True)
    library = {name: seconds_or_reason(dual, ids, name) for name in LIBRARIES}
    print(library, flush=True)
    best = {name: min(found, key=lambda c: found[c]["warm"]) for name, found in tried.items()}
    ways = {"dual": ours(dual, best["dual"]), "full": ours(full, best["full"])}
    memory = {name: peak_memory(work) for name, work in ways.items()}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, work in ways.items():
            times[name].append(seconds_of(work))
    spread = {name: percentiles(samples) for name, samples in times.items()}
    others = [found for found in library.values() if isinstance(found, float)]
    baseline = min(spread["full"]["p50"], *others)
    return {
        "seconds": spread,
        "seconds_by_chunk": tried,
        "chunk_tokens": best,
        "transformers_seconds": library,
        "baseline_seconds": baseline,
        "speedup": baseline / spread["dual"]["p50"],
        "peak_memory_gib": memory,
        "memory_ratio": memory["full"]["beyond_weights"] / memory["dual"]["beyond_weights"],
    }


def seconds_or_reason(model: LoadedModel, ids: Tensor, backend: str) -> float | str:
    """The better of two forward passes of transformers over a back end, or why it has none."""
    with transformers_attention(model, backend):
        try:
            return min(seconds_of(lambda: whole_pass(model, ids)) for _ in range(2))
        except RuntimeError as error:
            return str(error).strip().partition("\n")[0]


@contextmanager
def transformers_attention(model: LoadedModel, backend: str) -> Iterator[None]:
    """Let transformers' own attention run, over one back end, while the block runs."""
    module: Any = model.model
    module.set_attn_implementation("sdpa")
    try:
        with sdpa_kernel(LIBRARIES[backend]):
            yield
    finally:
        module.set_attn_implementation(NAME)


@torch.inference_mode()
def whole_pass(model: LoadedModel, ids: Tensor) -> None:
    """Transformers' own prefill: the document in one piece into a cache of its own."""
    module: Any = model.model
    cache = DynamicCache(config=module.config)
    ids = ids[None].to(model.device)
    module(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)


def peak_memory(work: Callable[[], object]) -> dict[str, float]:
    """GiB at most while the work runs, and how much of it is not the weights'."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    weights = torch.cuda.memory_allocated()
    work()
    peak = torch.cuda.max_memory_allocated()
    return {"total": peak / 2**30, "beyond_weights": (peak - weights) / 2**30}


if __name__ == "__main__":
    main()
