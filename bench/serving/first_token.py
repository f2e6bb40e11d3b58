"""Time to the first token of a question on a document that was read, against what else one may do.

    python -m bench.serving.first_token --tokens 16384
    python -m bench.serving.first_token --tokens 131072 --repeats 1 --reread served_plan \
        --prefix resident

The model is served as by default: its own head plan, the budget `balanced`. Three baselines of the
same run, by question: reading the document again, which is prefill under the same head plan; full
attention in all heads over a resident cache; and a warm transformers prefix cache. Re-reading means
the first of these wherever this project says so; what all heads take to read, by this project's
prefill and by transformers' forward pass, is told beside it. Where that pass would take hours,
transformers' prefix cache is given the keys and values of the resident one. The ways take turns,
question by question, each from the question's text on. On a CPU one thread works unless more are
asked for, and its processor time counts, which nothing else on the machine lengthens much; even so,
only the ratios mean something.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import AutoModelForCausalLM, DynamicCache

from bench import RESULTS
from bench.timing import seconds_of
from engine.attend.question import open_question
from engine.config import ModelConfig
from engine.decode.running_answer import RunningAnswer
from engine.decode.sampling import Sampling
from engine.document.artifact import pack, unpack
from engine.document.budget import BALANCED, EXACT
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.attention import forward
from engine.model.head_plan import ALL
from engine.model.loader import LoadedModel, load_model
from precompute.build import precompute_document
from precompute.config import PrecomputeConfig
from precompute.prefill import prefill
from reader import HANDBOOK, WEIGHTS
from training.record import circumstances, percentiles, write

QUESTIONS = (
    "Who looks after the archive?",
    "What is the telephone number of the front desk?",
    "How much may be spent on travel in a month?",
    "Which code opens the store room?",
    "When is the yearly inspection held?",
)
READINGS = 2  # rounds that begin by reading the document again, each way
WAYS_OF_READING = ("served_plan", "all_heads", "transformers_all_heads")
TRANSFORMERS, RESIDENT = "transformers", "resident"  # who reads for transformers' cache
USUAL_TOKENS = 16_384
TOLERANCE = 2e-2  # logits, bf16 artifact against fp32 attention


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default=str(WEIGHTS))
    parser.add_argument("--tokens", type=int, default=USUAL_TOKENS)
    parser.add_argument("--repeats", type=int, default=4, help="rounds over the questions")
    parser.add_argument("--reread", nargs="+", choices=WAYS_OF_READING, default=WAYS_OF_READING)
    parser.add_argument(
        "--prefix",
        choices=(TRANSFORMERS, RESIDENT),
        default=TRANSFORMERS,
        help="who reads for transformers' cache",
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="of torch, on a CPU")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    arguments = parser.parse_args()
    if arguments.device == "cpu":
        torch.set_num_threads(arguments.threads)
    result = measure(
        arguments.model,
        arguments.tokens,
        arguments.repeats,
        arguments.device,
        arguments.reread,
        arguments.prefix,
    )
    length = "" if arguments.tokens == USUAL_TOKENS else f"_{arguments.tokens >> 10}k"
    print(write(f"first_token_{arguments.device}{length}", result, arguments.out).read_text())


def measure(
    path: str,
    num_tokens: int,
    repeats: int,
    device: str,
    reread_ways: Sequence[str] = WAYS_OF_READING,
    prefix: str = TRANSFORMERS,
) -> dict[str, Any]:
    """Read a document of `num_tokens` tokens and time questions about it.

    Args:
        reread_ways: which of `WAYS_OF_READING` are timed, the first of them always.
        prefix: `TRANSFORMERS` or `RESIDENT`.
    """
    model, whole = (
        load_model(ModelConfig(path, device=device)),
        load_model(ModelConfig(path, device=device, heads=ALL)),
    )
    text = document_of(model, (HANDBOOK / "handbook.md").read_text(), num_tokens)
    plain: Any = AutoModelForCausalLM.from_pretrained(
        path, dtype=model.dtype, attn_implementation="sdpa"
    )
    plain.to(model.device)
    settings = PrecomputeConfig()
    document, load_ms = read_and_reload(model, text, settings)
    baseline, _ = read_and_reload(whole, text, settings)
    warm = warm_prefix(plain, document) if prefix == TRANSFORMERS else prefix_of(plain, baseline)
    error = check(whole, baseline, plain, warm)
    served, full = Engine(model), Engine(whole)
    ways: dict[str, Callable[[str], float]] = {
        "lectern_balanced": lambda q: first_token(served, document, q, BALANCED)[0],
        "full_attention_resident": lambda q: first_token(full, baseline, q, EXACT)[0],
        "transformers_warm_prefix": lambda q: prefix_first_token(model, plain, warm, q),
    }
    readings: dict[str, Callable[[], object]] = {
        "served_plan": lambda: prefill(model, document.ids, settings.chunk_tokens, _ignore),
        "all_heads": lambda: prefill(whole, document.ids, settings.chunk_tokens, _ignore),
        "transformers_all_heads": lambda: warm_prefix(plain, document),
    }
    first: dict[str, list[float]] = {name: [] for name in ways}
    reread: dict[str, list[float]] = {
        name: [] for name in readings if name in reread_ways or name == "served_plan"
    }
    for number in range(repeats):
        for name in reread if number < READINGS else ():
            reread[name].append(timed(readings[name]))
        for question, (name, way) in product(QUESTIONS, ways.items()):
            first[name].append(way(question))
    loaded = [first_token(served, document, q, BALANCED)[1] for q in QUESTIONS]
    return {
        "benchmark": "first_token",
        "clock": "processor time" if device == "cpu" else "wall time",
        **circumstances(device, model.weights),
        "document_tokens": document.num_tokens,
        "heads": {"method": model.plan.method, "retrieval_ratio": model.plan.ratio},
        "budget": {"requested": BALANCED, "loaded_mean": sum(loaded) / len(loaded)},
        "prefix_read_by": prefix,
        "correctness": {"largest_logit_error": error, "tolerance": TOLERANCE},
        "ratios": ratios(first, min(reread["served_plan"])),
        "load_ratio": load_ms / min(reread["served_plan"]),
        "first_token_ms": {name: percentiles(samples) for name, samples in first.items()},
        "reread_ms": {name: percentiles(samples) for name, samples in reread.items()},
        "load_ms": load_ms,
    }


def ratios(first: dict[str, list[float]], reread_ms: float) -> dict[str, dict[str, float]]:
    """How many times longer each baseline takes than ours: percentiles over the questions asked.

    Args:
        first: milliseconds to the first token by way, question by question in the same order.
        reread_ms: the fastest reading under the plan that is served.
    """
    ours = first["lectern_balanced"]
    found = {"reread": [reread_ms / own for own in ours]}
    for name in ("full_attention_resident", "transformers_warm_prefix"):
        found[name] = [other / own for other, own in zip(first[name], ours, strict=True)]
    return {name: percentiles(samples) for name, samples in found.items()}


def document_of(model: LoadedModel, text: str, num_tokens: int) -> str:
    """As much of the text, repeated if need be, as gives a prompt side of `num_tokens` tokens."""
    while len(model.prompt.encode_document(text).ids) < num_tokens:
        text += "\n\n" + text
    offsets = model.prompt.encode_document(text).offsets
    return text[: int(offsets[num_tokens - 1, 1])]


def read_and_reload(
    model: LoadedModel, text: str, settings: PrecomputeConfig
) -> tuple[DocumentCache, float]:
    """Read a document and write its artifact's files; the time is of loading these again, in ms."""
    document = precompute_document(model, text, [(1, 0, len(text))], settings, lambda *_: None)
    manifest, files = pack(document, settings.dtype)
    with TemporaryDirectory() as folder:
        for name, data in files:
            (Path(folder) / name).write_bytes(data)
        started = time.perf_counter()
        stored = ((path.name, path.read_bytes()) for path in sorted(Path(folder).iterdir()))
        loaded = unpack(manifest, stored, device=model.device, dtype=model.dtype)
        return loaded, (time.perf_counter() - started) * 1e3


@torch.inference_mode()
def warm_prefix(plain: Any, document: DocumentCache) -> DynamicCache:
    """Transformers' cache after the document, by one forward pass with its SDPA attention."""
    cache = DynamicCache(config=plain.config)
    ids = document.ids[None].to(plain.device)
    plain(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
    return cache


def prefix_of(plain: Any, document: DocumentCache) -> DynamicCache:
    """Transformers' cache with the keys and values of a document of which all heads keep all."""
    cache = DynamicCache(config=plain.config)
    for number, layer in enumerate(document.layers):
        places = layer.positions.long().argsort(dim=1)[..., None].expand_as(layer.keys)
        keys, values = (kept.gather(1, places)[None] for kept in (layer.keys, layer.values))
        cache.update(keys.to(plain.dtype), values.to(plain.dtype), number)
    return cache


def check(model: LoadedModel, document: DocumentCache, plain: Any, warm: DynamicCache) -> float:
    """The largest relative difference of first-token logits from transformers' own."""
    worst = 0.0
    for question in QUESTIONS:
        ids = model.prompt.encode_question(question).to(model.device)
        state = open_question(document, EXACT)
        ours = forward(model.model, ids, state.position, state)[-1]
        theirs = prefix_logits(plain, warm, ids)
        worst = max(worst, float((ours - theirs).abs().max() / theirs.abs().max()))
    if worst > TOLERANCE:
        raise SystemExit(f"Logits differ by {worst:.2e}: no figure is given.")
    return worst


def first_token(
    engine: Engine, document: DocumentCache, question: str, budget: float
) -> tuple[float, float]:
    """Milliseconds from a question's text to its first token, and the share of the cache loaded."""
    asked: list[RunningAnswer] = []

    def ask() -> None:
        running = engine.start(document, question, budget=budget, sampling=Sampling(max_tokens=1))
        asked.append(running)
        engine.step([running])

    spent_ms = timed(ask)
    engine.finish(asked[0])
    return spent_ms, asked[0].result().budget.loaded


@torch.inference_mode()
def prefix_logits(plain: Any, warm: DynamicCache, ids: torch.Tensor) -> torch.Tensor:
    """Logits after the question on top of a warm prefix cache, which is left as it was."""
    length = warm.get_seq_length()
    positions = torch.arange(length, length + len(ids), device=ids.device)[None]
    output = plain(
        input_ids=ids[None], past_key_values=warm, position_ids=positions, logits_to_keep=1
    )
    warm.crop(-len(ids))
    logits: torch.Tensor = output.logits[0, -1].float()
    return logits


def prefix_first_token(model: LoadedModel, plain: Any, warm: DynamicCache, question: str) -> float:
    """Milliseconds to the first token over transformers' warm prefix cache."""

    def ask() -> None:
        ids = model.prompt.encode_question(question).to(model.device)
        prefix_logits(plain, warm, ids).argmax().item()

    return timed(ask)


def _ignore(_done: int) -> None:
    """Nobody waits for progress here."""


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of a piece of work: of processor time on a CPU, else the GPU's included."""
    if torch.cuda.is_available():
        return seconds_of(work) * 1e3
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1e3


if __name__ == "__main__":
    main()
