"""Decoding is the reference path's to a rounding, and what is wrong is told from roundings."""

import copy
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from bench.random_llama import ModelShape
from bench.serving.decode_check import LIMITS, Comparison, attention_alone, compare
from bench.serving.synthetic import draw_document, draw_model
from bench.serving.synthetic_question import calibrated
from engine.attend.clusters import AttendedClusters
from engine.attend.clusters_gpu import ClusterAttentionOnGpu
from engine.decode.graph import DecodeGraph
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.kernels.decode.inputs import DecodeInputs, ResidentLayer
from engine.kernels.decode.workspace import Workspace
from engine.model.attention import AttentionCall
from engine.model.loader import LoadedModel
from tests.engine import as_on_gpu

SHAPE = ModelShape(
    vocab_size=32_000, hidden_size=128, intermediate_size=96, num_layers=3, num_heads=8, kv_heads=4
)
NUM_TOKENS, LAYER = 1000, 1
SHARP = ("keys", "prefill_heads", "heads", "heads_read", "heads_mass")


@pytest.fixture(scope="module", params=["half", "all"])
def asked(request: pytest.FixtureRequest) -> tuple[LoadedModel, DocumentCache]:
    """A model in bf16 and a document with curves."""
    streaming = request.param == "half"
    model = draw_model(SHAPE, 4096, streaming=streaming, device="cpu")
    with pytest.MonkeyPatch.context() as patch:
        as_on_gpu.in_torch(patch)
        return model, calibrated(model, draw_document(model, NUM_TOKENS))


def compared(asked: tuple[LoadedModel, DocumentCache]) -> Comparison:
    """Compare with graphs of its own."""
    model, document = asked
    with Engine(model) as engine:
        return compare(engine, document)


def test_in_fp32_decoding_is_the_references(
    asked: tuple[LoadedModel, DocumentCache], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, document = asked
    as_on_gpu.in_torch(monkeypatch)
    found = compared((replace(model, model=copy.deepcopy(model.model).float()), in_fp32(document)))
    assert max(found.errors.values()) < 1e-4
    assert 0 < found.moved["logits"] < 1e-3


def in_fp32(document: DocumentCache) -> DocumentCache:
    return replace(document, layers=tuple(as_fp32(layer) for layer in document.layers))


def as_fp32(part: Any) -> Any:
    """The dataclass with all its bf16 tensors in fp32."""
    held = {one.name: getattr(part, one.name) for one in fields(part) if one.init}
    for name, value in held.items():
        if isinstance(value, Tensor):
            held[name] = value.float() if value.dtype == torch.bfloat16 else value
        elif hasattr(value, "__dataclass_fields__"):
            held[name] = as_fp32(value)
    return replace(part, **held)


def test_in_bf16_roundings_pass(
    asked: tuple[LoadedModel, DocumentCache], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_on_gpu.in_torch(monkeypatch)
    found = compared(asked)
    assert not set(found.failed) & set(SHARP)  # whole passes are chance at this size
    assert all(found.errors[name] < found.limits[name] / 3 for name in SHARP)


# -- what is wrong -------------------------------------------------------------------------------


def zero_a_head(patch: pytest.MonkeyPatch) -> None:
    """One head's output of one layer."""
    attend = DecodeGraph.attend

    def wrong(step: DecodeGraph, call: AttentionCall) -> Tensor:
        out = attend(step, call).clone()
        if call.layer == LAYER:
            out[0] = 0
        return out

    patch.setattr(DecodeGraph, "attend", wrong)


def change_layer(
    change: Callable[[ResidentLayer, Tensor, Tensor], tuple[ResidentLayer, Tensor]],
    patch: pytest.MonkeyPatch,
) -> None:
    """What one layer attends with: its document and its thresholds."""
    attend, staged = DecodeGraph.attend, as_on_gpu.staged_attention
    at = [0]

    def follow(step: DecodeGraph, call: AttentionCall) -> Tensor:
        at[0] = call.layer
        return attend(step, call)

    def wrong(inputs: DecodeInputs, work: Workspace) -> Tensor:
        if at[0] == LAYER:
            layer, thresholds = change(inputs.layer, inputs.thresholds, inputs.query[0])
            inputs = replace(inputs, layer=layer, thresholds=thresholds)
        return staged(inputs, work)

    patch.setattr(DecodeGraph, "attend", follow)
    patch.setattr("engine.decode.graph.decode_attention", wrong)


def move_thresholds(
    layer: ResidentLayer, thresholds: Tensor, _: Tensor
) -> tuple[ResidentLayer, Tensor]:
    return layer, thresholds + 0.5


def lose_a_cluster(
    layer: ResidentLayer, thresholds: Tensor, query: Tensor
) -> tuple[ResidentLayer, Tensor]:
    """What the first head would read of the cluster that it attends to most."""
    offsets = layer.offsets[0]
    scores = (query[0].float() @ layer.centroids[0].float().T) * SHAPE.head_dim**-0.5
    at = int((scores + offsets.diff().log()).argmax())
    values = layer.values.clone()
    start, end = (layer.num_anchors + int(offset) for offset in offsets[at : at + 2])
    values[0, start:end] = 0
    return replace(layer, values=values), thresholds


def shift_positions(patch: pytest.MonkeyPatch) -> None:
    """Tokens stand one place further than they do."""
    begin = DecodeGraph.begin

    def wrong(step: DecodeGraph, question: Any) -> None:
        begin(step, question)
        step._num_tokens += 1

    patch.setattr(DecodeGraph, "begin", wrong)


def lose_the_prefill(patch: pytest.MonkeyPatch) -> None:
    """What the sharpest head reads of clustered tokens in the question's prefill."""
    attend = ClusterAttentionOnGpu.attend

    def wrong(listing: ClusterAttentionOnGpu, *call: Any) -> AttendedClusters:
        reached = attend(listing, *call)
        reached.state.out[-1] = 0
        return reached

    patch.setattr(ClusterAttentionOnGpu, "attend", wrong)


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (zero_a_head, "heads"),
        (partial(change_layer, move_thresholds), "heads"),
        (partial(change_layer, move_thresholds), "heads_read"),
        (partial(change_layer, lose_a_cluster), "heads"),
        (lose_the_prefill, "prefill_heads"),
    ],
    ids=["head", "thresholds", "thresholds read", "cluster", "prefill"],
)
def test_wrong_attention_fails_by_far(
    asked: tuple[LoadedModel, DocumentCache],
    spoil: Callable[[pytest.MonkeyPatch], None],
    error: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    as_on_gpu.in_torch(monkeypatch)
    spoil(monkeypatch)
    assert attention_alone(*asked)[error] > 2 * LIMITS[error]


def test_a_wrong_position_fails_by_far(
    asked: tuple[LoadedModel, DocumentCache], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_on_gpu.in_torch(monkeypatch)
    shift_positions(monkeypatch)
    found = compared(asked)
    assert found.errors["keys"] > 2 * found.limits["keys"]
    assert "logits" in found.failed
