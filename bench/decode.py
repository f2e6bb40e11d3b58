"""Decoding and the first token, end to end, on one GPU: a question about a resident document.

    python -m bench.decode --out DIR

Models with random weights in bf16, documents that are drawn (`bench.drawn`); all KV heads retrieval
heads (`all`), or every other one streaming (`half`); budgets at which the retrieval heads leave out
90 % of their clustered tokens. A token's time is from token to token as an answer takes them,
sampling and the wait for the token included. Beside it, in a CUDA graph too, the same model over
all keys of the same document by the faster of cuDNN and FlashAttention (for it, without the keys of
the question); and the floor: the bytes of the weights over the bandwidth of a large copy. No figure
is given before graphs were compared with the reference path, pass by pass.
"""

import argparse
import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor

from bench.drawn import SHAPES, ModelShape, draw_document, draw_model
from bench.kernels.common import LIBRARIES, copy_bandwidth, library_attention
from bench.record import circumstances, percentiles, write
from engine.answer import open_question
from engine.attention import AttentionCall, forward
from engine.curve import BudgetCurve, BudgetCurves, Thresholds
from engine.decode_step import DecodeStep
from engine.decoders import DecodeConfig, Decoders, Decoding
from engine.document import DocumentCache
from engine.evidence import AttentionMass
from engine.governor import Governor
from engine.kernels.append_keys import append_keys
from engine.listing import Listing
from engine.meter import Meter
from engine.model import LoadedModel
from engine.question import QuestionState
from engine.reach import Everything, LookedUp, Reach
from engine.sampling import Sampler, Sampling
from precompute.prefill import prefill

DEVICE = "cuda"
CONTEXTS = {"4K": 4096, "32K": 32_768, "128K": 131_072, "512K": 524_288}
PLANS = ("half", "all")
QUESTION_TOKENS, ANSWER_TOKENS, WARM_TOKENS = 64, 68, 4
SPARSITY = 0.9
FEWEST_WORDS = 32_000  # of all shapes
CURVE = (-2.0, -1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 2.0)  # nats around the threshold
CHECKED, CHECKED_TOKENS = "4K", 12
# Relative, in bf16: of logits, bytes read and evidence against the reference path (a wrong head
# would be off by about 1), and of logits against those without a graph.
TOLERANCE = {"logits": 0.1, "read": 0.03, "mass": 0.15, "eager": 0.01}
REREAD, CHUNK = "128K", 16_384
SPARE_BYTES = 24 << 30  # beside weights and document


def main() -> None:
    """Check, measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shape", choices=list(SHAPES), default="llama3_8b")
    parser.add_argument("--contexts", nargs="+", default=list(CONTEXTS))
    parser.add_argument("--plans", nargs="+", default=PLANS)
    parser.add_argument("--out", type=Path, default=None, help="folder of the result")
    arguments = parser.parse_args()
    shape = SHAPES[arguments.shape]
    bandwidth = copy_bandwidth()
    print(f"copy {bandwidth / 1e12:.2f} TB/s", flush=True)
    plans: dict[str, dict[str, Any]] = {plan: {} for plan in arguments.plans}

    def save() -> Path:
        result = {
            "benchmark": "decode",
            "about": {**circumstances(DEVICE), "triton": triton.__version__},
            "model": f"{arguments.shape}, random weights, bf16",
            "question_tokens": QUESTION_TOKENS,
            "sparsity": SPARSITY,
            "copy_bytes_per_s": bandwidth,
            "plans": plans,
        }
        return write(f"decode_{arguments.shape}", result, *filter(None, [arguments.out]))

    for plan, found in plans.items():
        model = draw_model(
            shape,
            max(CONTEXTS.values()) + 4096,
            streaming=plan == "half",
            config=DecodeConfig(compiled=True),
            device=DEVICE,
        )
        for _ in measure(found, model, shape, plan, arguments.contexts, bandwidth):
            print(f"written to {save()}", flush=True)
        del model
        release()


def measure(
    found: dict[str, Any],
    model: LoadedModel,
    shape: ModelShape,
    plan: str,
    contexts: list[str],
    bandwidth: float,
) -> Iterator[None]:
    """All documents of one model; the shortest is checked first. Yields when more was found."""
    checked = calibrated(model, draw_document(model, CONTEXTS[CHECKED]))
    found["correctness"] = check(model, checked)
    print(plan, found, flush=True)
    del checked
    weight_bytes = sum(weight.nbytes for weight in model.model.parameters())
    found["weight_bytes"] = weight_bytes
    found["weights_ms"] = weight_bytes / bandwidth * 1e3
    if REREAD in contexts:
        found["reread_ms"] = time_reading(model, CONTEXTS[REREAD])
        print(plan, "re-reading", found["reread_ms"], flush=True)
    for context in contexts:
        found[context] = measure_document(model, shape, CONTEXTS[context])
        print(plan, context, found[context], flush=True)
        release()
        found["ratios"] = ratios(found)
        yield
    print(plan, found["ratios"], flush=True)


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


def measure_document(model: LoadedModel, shape: ModelShape, num_tokens: int) -> dict[str, Any]:
    """Time questions about one document; or say why it does not fit."""
    need = shape.document_bytes(num_tokens, model.plan.ratio) + SPARE_BYTES
    free = torch.cuda.mem_get_info()[0]
    if need > free:
        return {"left_out": f"needs {need >> 30} GiB, {free >> 30} GiB are free"}
    document = calibrated(model, draw_document(model, num_tokens))
    first = [first_token_ms(model, document) for _ in range(20)]
    tokens, state, capturing = token_ms(model, document, model.decoders)
    plain = Decoders(model.model, model.spec, DecodeConfig(compiled=False))
    found = {
        "first_token_ms": percentiles(first[WARM_TOKENS:]),
        "token_ms": percentiles(tokens),
        "captured": is_captured(model.decoders, document),
        "decoding": asdict(model.decoders.carried_out),
        "first_pass_ms": capturing,  # compiles, and captures
        "budget": budget_of(document),
        "loaded_decode": state.meter.share(1),
        "uncompiled_ms": percentiles(token_ms(model, document, plain)[0]),
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30,
    }
    if model.plan.ratio == 1.0:
        found.update(full_attention(model, document))
    return found


# -- a document's budget -------------------------------------------------------------------------


def calibrated(model: LoadedModel, document: DocumentCache) -> DocumentCache:
    """The document with curves around the thresholds that leave out `SPARSITY` of its tokens."""
    aim = aimed_share(document)

    def prefill_share(threshold: float) -> float:
        reach = Listing(Thresholds(threshold, threshold), document.lookup)
        state = QuestionState(document, reach, Everything())
        ask(model, state)
        return state.meter.share(0, 1)

    state = QuestionState(document, Everything(), Everything())
    ask(model, state)
    step = DecodeStep(model.spec, document, 256)
    step.warm_up(model.model)

    def decode_share(threshold: float) -> float:
        meter = Meter()
        step.begin(state)
        for token in question_ids(model)[:4].unbind():
            step.run(token[None], Thresholds(threshold, threshold), meter)
        return meter.share()

    curves = BudgetCurves(curve(prefill_share, aim), curve(decode_share, aim))
    return replace(document, curves=curves)


def curve(share: Callable[[float], float], aim: float) -> BudgetCurve:
    """Points around the threshold that loads `aim`."""
    low, high = -40.0, 0.0  # all and nothing
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (middle, high) if share(middle) > aim else (low, middle)
    points: dict[float, float] = {}
    for threshold in sorted((low + apart for apart in CURVE), reverse=True):
        loaded = share(threshold)
        if not points or loaded > max(points) * 1.001:
            points[loaded] = threshold
    pairs = points.values()
    return BudgetCurve(tuple(points), tuple(Thresholds(one, one) for one in pairs))


def aimed_share(document: DocumentCache) -> float:
    """The budget that leaves that share of the clustered tokens for retrieval heads."""
    read = full = 0.0
    for layer in document.layers:
        clustered = layer.num_retrieval * (layer.num_tokens - layer.num_anchors)
        centroids = layer.level2.centroids.shape[0] * layer.level2.centroids.shape[1]
        read += layer.constant_vectors + centroids + 2 * clustered * (1 - SPARSITY)
        full += layer.full_vectors
    return read / full


def budget_of(document: DocumentCache) -> float:
    """The budget to ask with."""
    return max(aimed_share(document), document.curves.floor)


# -- one question --------------------------------------------------------------------------------


def question_ids(model: LoadedModel) -> Tensor:
    """Some tokens."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, FEWEST_WORDS, (QUESTION_TOKENS,), generator=generator).to(model.device)


def ask(model: LoadedModel, state: QuestionState) -> Tensor:
    """The question's prefill; logits (vocabulary,)."""
    return forward(model.model, question_ids(model), state.position, state)[-1]


def opened(model: LoadedModel, document: DocumentCache) -> QuestionState:
    """A question at the document's budget, with evidence."""
    mass = AttentionMass(document.num_tokens, document.num_sinks, model.device)
    return open_question(document, budget_of(document), mass)


def first_token_ms(model: LoadedModel, document: DocumentCache) -> float:
    """From the question's ids to its first token."""
    ids = question_ids(model)
    sampler = Sampler(Sampling(), 1.0, model.device)
    torch.cuda.synchronize()
    started = time.perf_counter()
    sampler.next_token(ids, ask(model, opened(model, document)))
    return (time.perf_counter() - started) * 1e3


def token_ms(
    model: LoadedModel, document: DocumentCache, decoders: Decoders
) -> tuple[list[float], QuestionState, float]:
    """Times of an answer's tokens, the question, and the time of the first pass apart."""
    state, ids = opened(model, document), question_ids(model)
    sampler = Sampler(Sampling(), 1.0, model.device)
    token = sampler.next_token(ids, ask(model, state))
    times = []
    with Decoding(decoders, model.model, state, len(ids) + ANSWER_TOKENS) as decoding:
        for _ in range(ANSWER_TOKENS):
            started = time.perf_counter()
            fresh = torch.tensor([token], device=model.device)
            ids = torch.cat((ids, fresh))
            token = sampler.next_token(ids, decoding.logits(fresh))
            times.append((time.perf_counter() - started) * 1e3)
    return times[WARM_TOKENS:], state, times[0]


def is_captured(decoders: Decoders, document: DocumentCache) -> bool:
    """Whether tokens were replays of a graph."""
    with decoders.borrow(document, QUESTION_TOKENS + ANSWER_TOKENS) as step:
        return step is not None and step.pool is not None


# -- full attention, and reading again -----------------------------------------------------------


class FullStep(DecodeStep):
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


def full_attention(model: LoadedModel, document: DocumentCache) -> dict[str, Any]:
    """A token's time with full attention in a graph: the fastest library."""
    found = {}
    for library in LIBRARIES:
        for folded in (False, True):
            name = f"{library}_folded" if folded else library
            try:
                found[name] = percentiles(list(full_token_ms(model, document, library, folded)))
            except RuntimeError as error:
                print(f"{name} does not run: {str(error).splitlines()[0][:100]}", flush=True)
    if not found:
        return {}
    best = min(found, key=lambda name: found[name]["p50"])
    return {"full_attention_ms": found[best], "full_attention": best}


def full_token_ms(
    model: LoadedModel, document: DocumentCache, library: str, folded: bool
) -> Iterator[float]:
    """Times of tokens."""
    state = opened(model, document)
    ask(model, state)
    step = FullStep(model.spec, document, 256)
    step.library, step.folded = library, folded
    step.warm_up(decoding_model(model))
    step.capture(None)
    step.begin(state)
    token, meter = question_ids(model)[:1], Meter()
    for index in range(36):
        started = time.perf_counter()
        token = step.run(token, None, meter).argmax()[None]
        int(token)
        if index >= WARM_TOKENS:
            yield (time.perf_counter() - started) * 1e3


def decoding_model(model: LoadedModel) -> torch.nn.Module:
    """The model that decode steps run."""
    return model.decoders.twin or model.model


def time_reading(model: LoadedModel, num_tokens: int) -> float:
    """Milliseconds to read a document of so many tokens again, its clustering left out."""
    ids = torch.zeros(num_tokens, dtype=torch.int64)
    prefill(model, ids[: 2 * CHUNK], CHUNK, lambda _: None)
    torch.cuda.synchronize()
    started = time.perf_counter()
    prefill(model, ids, CHUNK, lambda _: None)
    torch.cuda.synchronize()
    return (time.perf_counter() - started) * 1e3


# -- correctness ---------------------------------------------------------------------------------


def check(model: LoadedModel, document: DocumentCache) -> dict[str, float]:
    """Compare graphs with the reference path, and with passes without a graph.

    Raises: SystemExit if they differ by more than the tolerance, or if nothing was captured.
    """
    wanted, expected = passes(model, reference_question(model, document), None)
    logits, state = passes(model, opened(model, document), model.decoders)
    if not is_captured(model.decoders, document):
        raise SystemExit("Nothing was captured: no figure is given.")
    uncompiled = Decoders(model.model, model.spec, DecodeConfig(compiled=False))
    others, _ = passes(model, opened(model, document), uncompiled)
    errors = {
        "logits": relative(logits, wanted),
        "uncompiled": relative(others, wanted),
        "read": abs(state.meter.share(1) / expected.meter.share(1) - 1),
        "mass": relative(mass_of(state), mass_of(expected)),
        "eager": relative(logits, without_graph(model, document)),
    }
    limits = {**TOLERANCE, "uncompiled": TOLERANCE["logits"]}
    if not all(errors[name] <= limit for name, limit in limits.items()):
        raise SystemExit(f"Too far from the reference, {errors}: no figure is given.")
    return errors


def passes(
    model: LoadedModel, state: QuestionState, decoders: Decoders | None
) -> tuple[Tensor, QuestionState]:
    """Logits of a few passes over given tokens (passes, vocabulary); None: the reference path."""
    ask(model, state)
    off = Decoders(model.model, model.spec, DecodeConfig(captured=False))
    with Decoding(decoders or off, model.model, state, QUESTION_TOKENS + ANSWER_TOKENS) as decoding:
        tokens = question_ids(model)[:CHECKED_TOKENS].unbind()
        found = [decoding.logits(token[None]).clone() for token in tokens]
    return torch.stack(found), state


def reference_question(model: LoadedModel, document: DocumentCache) -> QuestionState:
    """A question at the document's budget in plain torch."""
    meter, budget = Meter(), budget_of(document)

    def reach(thresholds: Thresholds | None) -> Reach:
        return LookedUp(thresholds, document.lookup) if thresholds else Everything()

    prefill_reach = reach(document.curves.prefill.at(budget))
    governor = Governor(document.curves.decode, budget, reach, meter)
    mass = AttentionMass(document.num_tokens, document.num_sinks, model.device)
    return QuestionState(document, prefill_reach, governor, mass, meter)


def without_graph(model: LoadedModel, document: DocumentCache) -> Tensor:
    """Logits of the same passes in a step that is not captured."""
    state = opened(model, document)
    ask(model, state)
    step = DecodeStep(model.spec, document, 256)
    step.warm_up(decoding_model(model))
    step.begin(state)
    if not isinstance(state.decode, Governor):
        raise SystemExit("The budget takes everything: nothing is looked up.")
    tokens = question_ids(model)[:CHECKED_TOKENS].unbind()
    found = [
        step.run(token[None], state.decode.next_thresholds(), state.meter).clone()
        for token in tokens
    ]
    return torch.stack(found)


def mass_of(state: QuestionState) -> Tensor:
    """Where a question looked."""
    if state.mass is None:
        raise SystemExit("A question without evidence cannot be compared.")
    return state.mass.on_tokens()


def relative(found: Tensor, wanted: Tensor) -> float:
    """Norm of the difference over the norm."""
    return float((found.double() - wanted.double()).norm() / wanted.double().norm())


def release() -> None:
    """Give memory back before the next document."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
