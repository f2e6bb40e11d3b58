"""Time to the first token of a question on a document that was read, against re-reading it.

    python -m bench.serving.first_token --tokens 16384

Under the head plan that the model is served with. Baselines of the same run: re-reading by this
project's chunked prefill and by transformers' own forward pass (the faster one counts), full
attention in all heads over a resident cache, and a warm transformers prefix cache. On a CPU only
the ratios mean something.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import AutoModelForCausalLM, DynamicCache

from bench import RESULTS
from bench.timing import seconds_of
from engine.attend.question import open_question
from engine.config import ModelConfig
from engine.decode.answer import Answer
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
TOLERANCE = 2e-2  # logits, bf16 artifact against fp32 attention


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default=str(WEIGHTS))
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--repeats", type=int, default=4, help="rounds over the questions")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0, help="of torch; 0 leaves its default")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    result = measure(arguments.model, arguments.tokens, arguments.repeats, arguments.device)
    print(write(f"first_token_{arguments.device}", result, arguments.out).read_text())


def measure(path: str, num_tokens: int, repeats: int, device: str) -> dict[str, Any]:
    """Read a document of `num_tokens` tokens and time questions about it."""
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
    warm = warm_prefix(plain, document)
    error = check(whole, baseline, plain, warm)
    reading = {
        "chunked_prefill": [
            timed(lambda: prefill(whole, document.ids, settings.chunk_tokens, lambda _: None))
            for _ in range(2)
        ],
        "transformers_forward": [timed(lambda: warm_prefix(plain, document)) for _ in range(2)],
    }
    reread_ms = min(min(samples) for samples in reading.values())
    rounds = [question for _ in range(repeats) for question in QUESTIONS]
    ours = [first_token(Engine(model), document, question, BALANCED) for question in rounds]
    first = {
        "lectern_balanced": [ms for ms, _ in ours],
        "full_attention_resident": [
            first_token(Engine(whole), baseline, q, EXACT)[0] for q in rounds
        ],
        "transformers_warm_prefix": [prefix_first_token(model, plain, warm, q) for q in rounds],
    }
    shares = {name: percentiles(samples) for name, samples in first.items()}
    median = shares["lectern_balanced"]["p50"]
    return {
        "benchmark": "first_token",
        **circumstances(device, model.weights),
        "document_tokens": document.num_tokens,
        "heads": {"method": model.plan.method, "retrieval_ratio": model.plan.ratio},
        "budget": {"requested": BALANCED, "loaded_mean": sum(s for _, s in ours) / len(ours)},
        "correctness": {"largest_logit_error": error, "tolerance": TOLERANCE},
        "reread_ratio": reread_ms / median,
        "full_attention_ratio": shares["full_attention_resident"]["p50"] / median,
        "warm_prefix_ratio": shares["transformers_warm_prefix"]["p50"] / median,
        "load_ratio": load_ms / reread_ms,
        "first_token_ms": shares,
        "reread_ms": {name: min(samples) for name, samples in reading.items()},
        "load_ms": load_ms,
    }


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
    """Milliseconds to the first token, and the share of the cache loaded."""
    *_, last = engine.answer(document, question, budget=budget, sampling=Sampling(max_tokens=1))
    if not isinstance(last, Answer):
        raise SystemExit("The answer did not end.")
    return last.timings_ms["first_token"], last.budget.loaded


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


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of a piece of work, the GPU's included."""
    return seconds_of(work) * 1e3


if __name__ == "__main__":
    main()
