"""A document cache's own arithmetic."""

import torch

from engine.document.cache import Clusters, no_clusters
from tests.models import FAMILIES, HALF, loaded, prose, read


def test_sizes_are_the_lengths_of_runs() -> None:
    clusters = Clusters(torch.zeros(1, 3, 4), torch.tensor([[0, 2, 2, 7]]))
    assert clusters.sizes.tolist() == [[2, 0, 5]]


def test_a_level_without_clusters_is_empty() -> None:
    clusters = no_clusters(torch.zeros(2, 9, 4))
    assert clusters.centroids.shape == (2, 0, 4)
    assert clusters.sizes.shape == (2, 0)


def test_bytes_are_counted() -> None:
    document = read(loaded(FAMILIES["llama"]), prose(400))
    keys_and_values = 2 * 2 * 2 * 401 * 16 * 4  # layers, both, heads, tokens, head_dim, fp32
    positions, offsets = 2 * 2 * 401 * 4, 401 * 2 * 4
    centroids = 2 * 2 * (38 + 11) * 16 * 4  # a tenth and three hundredths of 381 tokens
    runs = 2 * 2 * (39 + 12) * 4
    assert document.kv_bytes == keys_and_values
    total = keys_and_values + positions + centroids + runs + offsets + 401 * 8
    assert document.num_bytes == total


def test_bytes_of_streaming_heads_are_counted_and_do_not_grow() -> None:
    model = loaded(FAMILIES["llama"], plan=HALF)
    short, long = (read(model, prose(num_chars)) for num_chars in (400, 800))
    vector = 16 * 4  # head_dim, fp32
    retrieval, streaming = 2 * 2 * 401 * vector, 2 * 2 * (4 + 24 + 1) * vector
    assert short.kv_bytes == retrieval + streaming
    assert long.kv_bytes == 2 * 2 * 801 * vector + streaming
    held = sum(tensor.nbytes for layer in short.layers for tensor in layer.tensors())
    assert short.num_bytes == held + 401 * (8 + 2 * 4)
    assert held > short.kv_bytes
