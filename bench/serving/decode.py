"""Decoding and the first token, end to end, on one GPU: a question about a resident document.

    python -m bench.serving.decode --out DIR
    python -m bench.serving.decode --contexts --out DIR    # the check alone

Models with random weights in bf16, synthetic documents (`bench.serving.synthetic`); all KV heads
retrieval heads (`all`), or every other one streaming (`half`); budgets at which the retrieval heads
leave out 90 % of their clustered tokens. A token's time is from token to token as an answer takes
them, sampling and the wait for the token included. Beside it, in a CUDA graph too, the same model
over all keys of the same document by the faster of cuDNN and FlashAttention (for it, without the
keys of the question); and the floor: the bytes of the weights over the bandwidth of a large copy.
The first token at 128K is held against reading the document again under the same plan, and against
full attention over what is resident anyway (`bench.serving.resident_baselines`). A plan has figures
only if its graphs are what the reference path gives (`bench.serving.decode_check`); one that fails
says so in the result, the others go on, and the exit status is 1.
"""

import argparse
import gc
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench import RESULTS
from bench.kernels.libraries import LIBRARIES, library_attention
from bench.random_llama import SEED, SHAPES, ModelShape
from bench.serving.decode_check import compare
from bench.serving.resident_baselines import add_ratios, first_token_baselines
from bench.serving.synthetic import draw_document, draw_model
from bench.serving.synthetic_question import (
    ANSWER_TOKENS,
    QUESTION_TOKENS,
    SPARSITY,
    ask,
    budget_of,
    calibrated,
    decoding_model,
    is_captured,
    opened,
    question_ids,
)
from bench.timing import WrongResult, copy_bandwidth, seconds_of
from engine.attend.budget import ReadMeter
from engine.attend.question import QuestionState
from engine.config import DecodeConfig
from engine.decode.graph import DecodeGraph
from engine.decode.graph_pool import DecodeGraphPool, DecodeSession
from engine.decode.sampling import Draw, Sampler, Sampling, draw_tokens
from engine.document.budget import Thresholds
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.kernels.decode.append_keys import append_keys
from engine.model.attention import AttentionCall
from engine.model.loader import LoadedModel
from precompute.prefill import prefill
from training.record import circumstances, drawn, percentiles, write

DEVICE = "cuda"
CONTEXTS = {"4K": 4096, "32K": 32_768, "128K": 131_072, "512K": 524_288}
PLANS = ("half", "all")
CHECKED, WARM_TOKENS = "4K", 4
REREAD, CHUNK = "128K", 16_384
ANY = Thresholds(0.0, 0.0)  # full attention does not look at them
SPARE_BYTES = 24 << 30  # beside weights and document


def main(given: Sequence[str] | None = None) -> None:
    """Check, measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shape", choices=list(SHAPES), default="llama3_8b")
    parser.add_argument("--contexts", nargs="*", default=list(CONTEXTS))
    parser.add_argument("--plans", nargs="+", default=PLANS)
    parser.add_argument("--name", default="", help="of the result file; the shape's if none")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    arguments = parser.parse_args(given)
    shape = SHAPES[arguments.shape]
    bandwidth = copy_bandwidth()
    print(f"copy {bandwidth / 1e12:.2f} TB/s", flush=True)
    plans: dict[str, dict[str, Any]] = {plan: {} for plan in arguments.plans}

    def save() -> Path:
        add_ratios(plans, REREAD)
        result = {
            "benchmark": "decode",
            "about": circumstances(DEVICE, drawn(arguments.shape, SEED)),
            "model": f"{arguments.shape}, random weights, bf16",
            "question_tokens": QUESTION_TOKENS,
            "sparsity": SPARSITY,
            "copy_bytes_per_s": bandwidth,
            "plans": plans,
        }
        return write(arguments.name or f"decode_{arguments.shape}", result, arguments.out)

    for plan, found in plans.items():
        attempt(found, measure(found, shape, plan, arguments.contexts, bandwidth), save)
        release()
    if failed := [plan for plan, found in plans.items() if "failed" in found]:
        raise SystemExit(f"No figures, or not all: {', '.join(failed)}")


def attempt(found: dict[str, Any], measuring: Iterator[None], save: Callable[[], Path]) -> None:
    """Measure a plan, on file after each step; of one that fails the file says why."""
    try:
        for _ in measuring:
            print(f"written to {save()}", flush=True)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        found["failed"] = f"{type(error).__name__}: {error}"[:500]
        print(f"failed, written to {save()}", flush=True)


def measure(
    found: dict[str, Any], shape: ModelShape, plan: str, contexts: list[str], bandwidth: float
) -> Iterator[None]:
    """All documents of one plan; the shortest is checked first. Yields when more was found."""
    longest = max(CONTEXTS.values()) + 4096
    model = draw_model(shape, longest, streaming=plan == "half", device=DEVICE)
    engine = Engine(model, DecodeConfig(compiled_layers=True))
    check(found, engine)
    print(plan, found, flush=True)
    yield
    weight_bytes = sum(weight.nbytes for weight in model.model.parameters())
    found["weight_bytes"] = weight_bytes
    found["weights_ms"] = weight_bytes / bandwidth * 1e3
    if REREAD in contexts:
        found["reread_ms"] = time_reading(model, CONTEXTS[REREAD])
        print(plan, "re-reading", found["reread_ms"], flush=True)
    for context in contexts:
        found[context] = measure_document(engine, shape, CONTEXTS[context])
        print(plan, context, found[context], flush=True)
        release()
        found["ratios"] = ratios(found)
        yield
    print(plan, found.get("ratios", "checked alone"), flush=True)


def check(found: dict[str, Any], engine: Engine) -> None:
    """Compare graphs with the reference path.

    Raises: WrongResult if they differ by more than the limits, or if nothing was captured.
    """
    document = calibrated(engine.model, draw_document(engine.model, CONTEXTS[CHECKED]))
    comparison = compare(engine, document)
    found["correctness"] = comparison.as_dict()
    if not is_captured(engine.graphs, document):
        raise WrongResult("Nothing was captured: no figure is given.")
    if comparison.failed:
        raise WrongResult(f"Too far from the reference, {comparison}: no figure is given.")


def ratios(found: dict[str, Any]) -> dict[str, float]:
    """What the bars ask for, as far as it was measured."""

    def token(context: str) -> float:
        return float(found[context]["token_ms"]["p50"])

    there = [c for c in CONTEXTS if "token_ms" in found.get(c, {})]
    told = {f"{c}_to_4K": token(c) / token("4K") for c in there if "4K" in there}
    if "4K" in there:
        told["4K_to_weights"] = token("4K") / float(found["weights_ms"])
    for context in there:
        if "full_attention_ms" in found[context]:
            told[f"full_to_{context}"] = found[context]["full_attention_ms"]["p50"] / token(context)
    if "reread_ms" in found and REREAD in there:
        told["reread_to_first_token"] = found["reread_ms"] / found[REREAD]["first_token_ms"]["p50"]
    return told


def measure_document(engine: Engine, shape: ModelShape, num_tokens: int) -> dict[str, Any]:
    """Time questions about one document; or say why it does not fit."""
    model = engine.model
    need = shape.document_bytes(num_tokens, model.plan.ratio) + SPARE_BYTES
    free = torch.cuda.mem_get_info()[0]
    if need > free:
        return {"left_out": f"needs {need >> 30} GiB, {free >> 30} GiB are free"}
    document = calibrated(model, draw_document(model, num_tokens))
    first = [first_token_ms(model, document) for _ in range(20)]
    tokens, state, capturing = token_ms(model, document, engine.graphs)
    plain = DecodeGraphPool(model.model, model.spec, DecodeConfig(compiled_layers=False))
    found = {
        "first_token_ms": percentiles(first[WARM_TOKENS:]),
        "token_ms": percentiles(tokens),
        "captured": is_captured(engine.graphs, document),
        "decoding": asdict(engine.graphs.effective_config),
        "first_pass_ms": capturing,  # compiles, and captures
        "budget": budget_of(document),
        "loaded_decode": state.meter.share(1),
        "uncompiled_ms": percentiles(token_ms(model, document, plain)[0]),
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30,
    }
    if model.plan.ratio == 1.0:
        found.update(full_attention(engine, document))
        if num_tokens == CONTEXTS[REREAD]:
            found["first_token_baselines"] = first_token_baselines(model, document)
    return found


# -- one question ----------------------------------------------------------------------------------


def first_token_ms(model: LoadedModel, document: DocumentCache) -> float:
    """From the question's ids to its first token."""
    sampler = Sampler(Sampling(), 1.0, model.device)
    torch.cuda.synchronize()
    started = time.perf_counter()
    next_token(sampler, ask(model, opened(model, document)))
    return (time.perf_counter() - started) * 1e3


def next_token(sampler: Sampler, logits: torch.Tensor) -> int:
    """The greedy token that follows from logits (vocabulary,)."""
    (drawn,) = draw_tokens([Draw(sampler, (), ())], logits[None]).fetch()
    assert drawn is not None
    return drawn.token


def token_ms(
    model: LoadedModel, document: DocumentCache, graphs: DecodeGraphPool
) -> tuple[list[float], QuestionState, float]:
    """Times of an answer's tokens, the question, and the time of the first pass apart."""
    state, num_question = opened(model, document), len(question_ids(model))
    sampler = Sampler(Sampling(), 1.0, model.device)
    token = next_token(sampler, ask(model, state))
    times = []
    session = DecodeSession(graphs, model.model, state, num_question + ANSWER_TOKENS)
    with closing(session):
        for _ in range(ANSWER_TOKENS):
            started = time.perf_counter()
            fresh = torch.tensor([token], device=model.device)
            token = next_token(sampler, session.logits(fresh))
            times.append((time.perf_counter() - started) * 1e3)
    return times[WARM_TOKENS:], state, times[0]


# -- full attention, and reading again -----------------------------------------------------------


class FullStep(DecodeGraph):
    """A pass over all of the document by a library's attention."""

    library, folded = "cudnn", False

    def attend(self, call: AttentionCall) -> Tensor:
        """Attend to the document alone."""
        layer = self.layers[call.layer]
        append_keys(
            layer.question.keys[0], layer.question.values[0], call.key, call.value, self.slot
        )
        query = call.query.transpose(0, 1).contiguous()
        held = layer.resident
        out = library_attention(
            query, held.keys, held.values, self.library, folded=self.folded, scale=call.scale
        )()
        return out.reshape(call.query.shape)


def full_attention(engine: Engine, document: DocumentCache) -> dict[str, Any]:
    """A token's time with full attention in a graph: the fastest library."""
    found = {}
    for library in LIBRARIES:
        for folded in (False, True):
            name = f"{library}_folded" if folded else library
            try:
                found[name] = percentiles(list(full_token_ms(engine, document, library, folded)))
            except RuntimeError as error:
                print(f"{name} does not run: {str(error).splitlines()[0][:100]}", flush=True)
    if not found:
        return {}
    best = min(found, key=lambda name: found[name]["p50"])
    return {"full_attention_ms": found[best], "full_attention": best}


def full_token_ms(
    engine: Engine, document: DocumentCache, library: str, folded: bool
) -> Iterator[float]:
    """Times of tokens."""
    model = engine.model
    state = opened(model, document)
    ask(model, state)
    step = FullStep(model.spec, document, 256)
    step.library, step.folded = library, folded
    step.warm_up(decoding_model(engine))
    step.capture(None)
    step.begin(state.keys_and_values())
    token, meter = question_ids(model)[:1], ReadMeter()
    for index in range(36):
        started = time.perf_counter()
        token = step.run(token, ANY, meter).argmax()[None]
        int(token)
        if index >= WARM_TOKENS:
            yield (time.perf_counter() - started) * 1e3


def time_reading(model: LoadedModel, num_tokens: int) -> float:
    """Milliseconds to read a document of so many tokens again, its clustering left out."""
    ids = torch.zeros(num_tokens, dtype=torch.int64)
    prefill(model, ids[: 2 * CHUNK], CHUNK, lambda _: None)
    return seconds_of(lambda: prefill(model, ids, CHUNK, lambda _: None)) * 1e3


def release() -> None:
    """Give memory back before the next document."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
