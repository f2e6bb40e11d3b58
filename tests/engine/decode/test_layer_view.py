"""A decode step over a resident layer is what the engine computes from its document cache."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from common.errors import UnsupportedModel
from engine.attend.clusters import Lookup, SparseClusterAttention
from engine.attend.streaming import attend_streaming
from engine.config import LookupConfig
from engine.decode.layer_view import resident_layer
from engine.document.budget import Thresholds
from engine.document.cache import Clusters, LayerCache, StreamingCache, no_clusters
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


def test_layers_whose_sight_moves_with_the_question_are_refused() -> None:
    with pytest.raises(UnsupportedModel):
        resident_layer(replace(make_layer(), window=64), LookupConfig())
