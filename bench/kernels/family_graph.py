"""Whether a Gemma-3-shaped model decodes in a CUDA graph, windowed layers and all.

Its weights and its document are random. Heads are compared with the reference path while layers go
on with the reference's outputs (`bench.serving.decode_check`), so that nothing is amplified; the
question is longer than the window. Then a captured pass must leave the bits of one that is not.
"""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AutoTokenizer, Gemma3TextConfig
from transformers.models.auto import AutoModelForCausalLM

from bench.serving.decode_check import ComparedQuestion, ComparedStep, HeadErrors
from bench.serving.synthetic import TOKENIZER, draw_document
from engine.attend.budget import ReadMeter
from engine.attend.clusters import FullClusterAttention, SparseClusterAttention
from engine.attend.clusters_gpu import ClusterAttentionOnGpu
from engine.attend.question import QuestionState
from engine.decode.graph import DecodeGraph
from engine.document.budget import Thresholds
from engine.model.attention import forward
from engine.model.loader import LoadedModel, assemble

PASSES, ABOVE_MEAN = 8, 0.5  # nats of the threshold above the share of an average token
# Relative in norm, of the worst head: one cluster at the threshold may be read by one path alone.
# Reads are relative. Logits and bytes that differ when replayed; messages of kernels that failed.
LIMITS = {
    "prefill_heads": 5e-2, "heads": 5e-2, "read": 1e-2, "replayed": 0, "replayed_read": 0,
    "fallbacks": 0,
}  # fmt: skip


@dataclass(frozen=True)
class GraphShape:
    """Sizes of the model, Gemma 3 4B's by default, and of the document."""

    hidden_size: int = 2560
    num_heads: int = 8
    kv_heads: int = 4
    head_dim: int = 256
    window: int = 1024
    num_layers: int = 7
    vocab_size: int = 4096
    num_tokens: int = 32_768


TINY = GraphShape(64, 4, 2, 16, 24, 7, 64, 600)


def check_graph(device: str, shape: GraphShape | None = None) -> dict[str, Any]:
    """Compare a decode graph's passes with the reference, and replays with passes.

    Args:
        device: on a CPU nothing is captured, and the row has no `replayed`.
        shape: None for Gemma 3 4B's, or on a CPU for a tiny one.
    Returns: the errors by the names of `LIMITS`, and whether all that were found are within them.
    """
    shape = shape or (TINY if device == "cpu" else GraphShape())
    row: dict[str, Any] = {"op": "decode graph", "shape": str(shape), "errors": {}, "raised": None}
    try:
        with counted_fallbacks() as fallbacks:
            row["errors"] = _errors(shape, device)
        row["errors"]["fallbacks"] = len(fallbacks)
    except Exception as error:  # what cannot be captured is a result, too
        row["raised"] = f"{type(error).__name__}: {error}"[:500]
    within = all(error <= LIMITS[name] for name, error in row["errors"].items())
    row["passed"] = row["raised"] is None and within
    verdict = "passed" if row["passed"] else "FAILED"
    print(f"{verdict}  decode graph: {row['raised'] or row['errors']}", flush=True)
    return row


def _errors(shape: GraphShape, device: str) -> dict[str, float]:
    model = draw_gemma3(shape, device)
    document = draw_document(model, shape.num_tokens)
    level = ABOVE_MEAN - math.log(shape.num_tokens)
    thresholds = Thresholds(level, level)
    ids = _ids(shape, device)
    asked, tokens = ids[:-PASSES], ids[-PASSES:, None]
    sparse = SparseClusterAttention(thresholds, document.lookup)
    wanted = QuestionState(document, sparse, sparse)
    fused = ClusterAttentionOnGpu(sparse)
    both = ComparedQuestion(
        QuestionState(document, fused, FullClusterAttention(), kernels=True), wanted
    )
    forward(model.model, asked, wanted.position, both)
    keys_and_values = list(wanted.keys_and_values())
    capacity = len(asked) + PASSES + 1
    step = ComparedStep(model.spec, document, capacity)
    step.warm_up(model.model)
    step.begin(keys_and_values)
    step.wanted, step.errors, meter = wanted, HeadErrors(), ReadMeter()
    for token in tokens:
        step.run(token, thresholds, meter)
    looked_up = [layer.work for layer in step.layers if layer.work.sizes.num_clusters]
    if not all(work.num_segments.any() for work in looked_up):
        raise ValueError("Nothing is selected: the comparison would say nothing.")
    errors = {
        "prefill_heads": both.errors.worst(),
        "heads": step.errors.worst(),
        "read": abs(meter.share() / wanted.meter.share(1) - 1),
    }
    if device == "cpu":
        return errors
    graph = DecodeGraph(model.spec, document, capacity)
    graph.warm_up(model.model)
    runs = []
    for captured in (False, True):
        if captured:
            graph.capture(None)
        graph.begin(keys_and_values)
        meter = ReadMeter()
        logits = [graph.run(token, thresholds, meter).clone() for token in tokens]
        runs.append((torch.stack(logits), meter.bytes_read))
    (eager, eager_read), (replayed, read) = runs
    return {
        **errors,
        "replayed": float((eager != replayed).sum()),
        "replayed_read": float(abs(eager_read - read)),
    }


def draw_gemma3(shape: GraphShape, device: str) -> LoadedModel:
    """A Gemma 3 text model with random weights in bf16; every sixth layer sees everything."""
    kinds = ["full_attention" if (n + 1) % 6 == 0 else "sliding_attention" for n in range(99)]
    config = Gemma3TextConfig(
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        intermediate_size=4 * shape.hidden_size,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        query_pre_attn_scalar=shape.head_dim,
        sliding_window=shape.window,
        layer_types=kinds[: shape.num_layers],
        max_position_embeddings=131_072,
        pad_token_id=2,  # not that of the probe, whose embedding would be zeros
        bos_token_id=1,
        eos_token_id=2,
    )
    torch.manual_seed(0)
    with torch.device(device):
        model: Any = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            config, dtype=torch.bfloat16
        )
    return assemble(
        model.eval().requires_grad_(False),
        AutoTokenizer.from_pretrained(TOKENIZER),
        name="gemma3",
        fingerprint="gemma3",
    )


def _ids(shape: GraphShape, device: str) -> Tensor:
    """The question's tokens, and those after it."""
    generator = torch.Generator().manual_seed(1)
    size = (shape.window + 40 + PASSES,)
    return torch.randint(3, shape.vocab_size, size, generator=generator).to(device)


@contextmanager
def counted_fallbacks() -> Iterator[list[str]]:
    """Collect the warnings of kernels that failed while the block runs."""
    found: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("lectern.decoding")
    log.addHandler(handler)
    try:
        yield found
    finally:
        log.removeHandler(handler)
