"""A decode step over a resident layer is what the engine computes from its document cache."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from common.errors import UnsupportedModel
from engine.attend.clusters import FullClusterAttention, Lookup, SparseClusterAttention
from engine.attend.question import QuestionState
from engine.attend.streaming import attend_streaming
from engine.config import LookupConfig
from engine.decode.layer_view import resident_layer
from engine.document.budget import NO_CURVES, Thresholds
from engine.document.cache import (
    Clusters,
    DocumentCache,
    LayerCache,
    ScopedHeads,
    StreamingCache,
    no_clusters,
)
from engine.kernels.decode.decode_attention import decode_attention
from engine.kernels.decode.inputs import DecodeInputs, QuestionKeys, Scoring, sizes_of
from engine.kernels.decode.workspace import allocate
from engine.kernels.shared.attend_keys import attend_keys
from engine.kernels.shared.merge_states import merge_states
from engine.kernels.shared.state import State
from engine.model.attention import AttentionCall
from tests.engine.naive import normal

RETRIEVAL, STREAMING, GROUP, DIM = 2, 1, 4, 16
NUM_ANCHORS, NUM_TOKENS, LENGTH = 9, 150, 6
LEVEL1, LEVEL2 = -5.1, -4.8
SCALE = 0.3


def make_layer(*, clustered: bool = True) -> LayerCache:
    keys, values = normal(2, RETRIEVAL, NUM_ANCHORS + NUM_TOKENS, DIM, seed=1)
    level2 = Clusters(normal(RETRIEVAL, 30, DIM, seed=2), every(30, NUM_TOKENS))
    level1 = Clusters(normal(RETRIEVAL, 6, DIM, seed=3), every(6, 30))
    if not clustered:
        keys, values = keys[:, :NUM_ANCHORS], values[:, :NUM_ANCHORS]
        level2 = level1 = no_clusters(keys)
    positions = torch.zeros(keys.shape[:2], dtype=torch.int32)
    kept = normal(2, STREAMING, 12, DIM, seed=4)
    streaming = StreamingCache(kept[0], kept[1], num_dropped=40)
    return LayerCache(keys, values, positions, NUM_ANCHORS, level2, level1, streaming=streaming)


def every(count: int, total: int) -> Tensor:
    """Offsets of `count` equal runs."""
    return (torch.arange(count + 1) * total // count).int().expand(RETRIEVAL, -1).contiguous()


@pytest.mark.parametrize("clustered", [True, False])
@pytest.mark.parametrize("levels", [1, 2])
def test_a_step_is_what_the_engine_computes_eagerly(levels: int, clustered: bool) -> None:
    layer, config = make_layer(clustered=clustered), LookupConfig(levels=levels)
    kv_heads = RETRIEVAL + STREAMING
    rows = normal(kv_heads, GROUP, DIM, seed=5)
    own = normal(2, kv_heads, LENGTH, DIM, seed=6)
    question = attend_keys(rows, own[0], own[1], scale=SCALE)
    split = State(question.out[:RETRIEVAL], question.lse[:RETRIEVAL])
    anchors = slice(0, NUM_ANCHORS)
    around = attend_keys(
        rows[:RETRIEVAL], layer.keys[:, anchors], layer.values[:, anchors], scale=SCALE
    )
    around = merge_states(split, around)
    expected, tokens, below = around, 0, 0
    if clustered:
        lookup = Lookup(rows[:RETRIEVAL], GROUP, around.lse, SCALE, None)
        reached = SparseClusterAttention(Thresholds(LEVEL1, LEVEL2), config).attend(lookup, layer)
        expected = merge_states(around, reached.state)
        assert reached.selection is not None
        tokens = reached.selection.num_tokens
        below = reached.selection.centroids_read - RETRIEVAL * 6 if levels == 2 else 0
        assert 0 < tokens < RETRIEVAL * NUM_TOKENS
    call = AttentionCall(0, rows.flatten(0, 1)[:, None], own[0], own[1], SCALE, None, None)
    assert layer.streaming is not None
    streamed = merge_states(
        State(question.out[RETRIEVAL:], question.lse[RETRIEVAL:]),
        attend_streaming(call, rows[RETRIEVAL:], layer.streaming),
    )

    resident = resident_layer(layer, config)
    keys = QuestionKeys(own[0][None], own[1][None], torch.tensor([LENGTH], dtype=torch.int32))
    work = allocate(sizes_of(resident, keys, kv_heads * GROUP), torch.float32, torch.device("cpu"))
    query = rows.flatten(0, 1)[None].contiguous()
    thresholds = torch.tensor([[LEVEL1], [LEVEL2]])
    inputs = DecodeInputs(query, resident, keys, thresholds, Scoring(SCALE))
    out = decode_attention(inputs, work)
    heads = out[0].view(kv_heads, GROUP, DIM)
    assert_close(heads[:RETRIEVAL], expected.out, rtol=1e-4, atol=1e-5)
    assert_close(heads[RETRIEVAL:], streamed.out, rtol=1e-4, atol=1e-5)
    assert work.read_counts.sum((1, 2)).tolist() == [tokens, below]


@pytest.mark.parametrize("window", [4, 8, 13, 40])  # of 9 anchors and 6 tokens of the question
def test_a_step_shows_what_the_engine_shows_of_a_window(window: int) -> None:
    layer = make_layer(clustered=False)
    layer = replace(layer, window=window, streaming=None)
    query = normal(RETRIEVAL * GROUP, 1, DIM, seed=5)
    own = normal(2, RETRIEVAL, LENGTH, DIM, seed=6)
    before, new = own[:, :, :-1], own[:, :, -1:]
    state = question_about(layer)
    for key, value in (before, new):
        call = AttentionCall(0, query.expand(-1, key.shape[1], -1), key, value, SCALE, None, window)
        expected = state.attend(call)

    resident = resident_layer(layer, LookupConfig())
    keys = QuestionKeys(own[0][None], own[1][None], torch.tensor([LENGTH], dtype=torch.int32))
    work = allocate(sizes_of(resident, keys, len(query)), torch.float32, torch.device("cpu"))
    thresholds = torch.zeros(2, 1)
    rows = query.transpose(0, 1).contiguous()
    out = decode_attention(DecodeInputs(rows, resident, keys, thresholds, Scoring(SCALE)), work)
    assert_close(out, expected.transpose(0, 1), rtol=1e-4, atol=1e-5)


def question_about(layer: LayerCache) -> QuestionState:
    """A question about a document of one layer that reads all of it."""
    document = DocumentCache(
        layers=(layer,),
        ids=torch.zeros(layer.num_tokens, dtype=torch.int64),
        offsets=torch.zeros(layer.num_tokens, 2, dtype=torch.int32),
        text="",
        pages=(),
        num_sinks=0,
        lookup=LookupConfig(),
        curves=NO_CURVES,
    )
    return QuestionState(document, FullClusterAttention(), FullClusterAttention())


def test_layers_with_linear_biases_are_refused() -> None:
    layer = make_layer(clustered=False)
    scoped = (ScopedHeads((0, 1), layer.keys, layer.values),)
    with pytest.raises(UnsupportedModel, match="linear biases"):
        resident_layer(replace(layer, scoped=scoped), LookupConfig())
