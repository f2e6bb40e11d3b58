"""Bytes read, counted by hand."""

from dataclasses import replace

import pytest
import torch

from engine.attend.budget import ReadMeter
from engine.attend.clusters import FullSelection, Selection
from engine.document.cache import Clusters, LayerCache, StreamingCache

# 2 KV heads, 30 tokens of which 6 are anchors, vectors of 8 numbers.
HEADS, TOKENS, ANCHORS, WIDTH = 2, 30, 6, 8


def layer(dtype: torch.dtype) -> LayerCache:
    cluster = Clusters(torch.zeros(HEADS, 1, WIDTH, dtype=dtype), torch.tensor([[0, 24]] * HEADS))
    parent = Clusters(cluster.centroids, torch.tensor([[0, 1]] * HEADS))
    keys = torch.zeros(HEADS, TOKENS, WIDTH, dtype=dtype)
    return LayerCache(keys, keys, torch.zeros(HEADS, TOKENS), ANCHORS, cluster, parent)


@pytest.mark.parametrize(("dtype", "num_bytes"), [(torch.float32, 4), (torch.bfloat16, 2)])
def test_reads_are_keys_values_anchors_and_centroids(dtype: torch.dtype, num_bytes: int) -> None:
    meter = ReadMeter()
    meter.begin_pass()
    meter.count(layer(dtype), FullSelection.of(layer(dtype)))
    meter.begin_pass()
    meter.count(layer(dtype), Selection((torch.arange(5), torch.arange(2)), centroids_read=9))
    everything = 2 * HEADS * TOKENS * WIDTH * num_bytes
    chosen = (2 * (5 + 2 + HEADS * ANCHORS) + 9) * WIDTH * num_bytes
    assert meter.read == [everything, chosen]
    assert meter.full == [everything, everything]
    assert meter.bytes_read == everything + chosen
    assert meter.share(0, 1) == 1.0
    assert meter.share(1) == chosen / everything
    assert meter.share() == (everything + chosen) / (2 * everything)


def test_layers_of_a_pass_add_up() -> None:
    meter = ReadMeter()
    meter.begin_pass()
    meter.count(layer(torch.float32), FullSelection.of(layer(torch.float32)))
    meter.count(layer(torch.float32), FullSelection.of(layer(torch.float32)))
    assert meter.full == [2 * 2 * HEADS * TOKENS * WIDTH * 4]


def test_a_layer_with_a_window_is_no_part_of_the_share() -> None:
    windowed = replace(layer(torch.float32), window=TOKENS, num_anchors=TOKENS)
    meter = ReadMeter()
    meter.begin_pass()
    meter.count(layer(torch.float32), Selection((torch.arange(5), torch.arange(2)), 9))
    share, in_budget = meter.share(), meter.bytes_read
    meter.count(windowed, FullSelection.of(windowed))
    assert meter.share() == share
    assert meter.windowed == 2 * HEADS * TOKENS * WIDTH * 4
    assert meter.bytes_read == in_budget + meter.windowed


def test_nothing_read_is_no_share() -> None:
    assert ReadMeter().share() == 0.0


def test_streaming_heads_are_read_whole_and_counted_as_full_attention_would_read_them() -> None:
    kept = torch.zeros(3, 9, WIDTH)  # 3 more KV heads with 8 tokens and a compensation token
    dual = replace(layer(torch.float32), streaming=StreamingCache(kept, kept, num_dropped=22))
    meter = ReadMeter()
    meter.begin_pass()
    meter.count(dual, FullSelection.of(dual))
    meter.begin_pass()
    meter.count(dual, Selection((torch.arange(5), torch.arange(2)), centroids_read=9))
    vector = WIDTH * 4
    streaming = 2 * 3 * 9
    assert meter.full == [2 * (HEADS + 3) * TOKENS * vector] * 2
    everything = 2 * HEADS * TOKENS + streaming
    chosen = 2 * (5 + 2 + HEADS * ANCHORS) + 9 + streaming
    assert meter.read == [everything * vector, chosen * vector]
