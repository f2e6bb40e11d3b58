"""A decode graph's passes over layers that are not all alike: windows, and widths."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from transformers import Qwen3Config

from engine.attend.budget import ReadMeter
from engine.attend.clusters import SparseClusterAttention
from engine.attend.question import QuestionState
from engine.config import LookupConfig
from engine.decode.graph import DecodeGraph
from engine.document.budget import NO_CURVES, Thresholds
from engine.document.cache import Clusters, DocumentCache, LayerCache, no_clusters
from engine.engine import Engine
from engine.model.attention import AttentionCall, forward
from engine.model.spec import LayerSpec, ModelSpec
from tests.engine.as_on_gpu import in_torch, in_triton
from tests.engine.decode.test_graph_pool import ask, passes, reasons, same
from tests.engine.naive import normal
from tests.models import FAMILIES, FURTHER, loaded, prose, read, sizes

# Every other layer sees a window, which here is shorter than the question, with groups of 8 heads.
GPT_OSS_LIKE = Qwen3Config(
    **sizes(1, num_attention_heads=8, head_dim=16, sliding_window=16, use_sliding_window=True),
    layer_types=["sliding_attention", "full_attention"],
)
WINDOWED = {"gemma2": FAMILIES["gemma2"], "gemma3": FURTHER["gemma3"], "gpt-oss": GPT_OSS_LIKE}


@pytest.mark.parametrize("name", WINDOWED)
def test_models_with_windows_are_answered_as_the_reference_does(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = loaded(WINDOWED[name])
    document = read(model, prose(500))
    tokens = model.prompt.encode_answer("maps and lamps").split(1)
    expected = ask(model, document)
    reference = passes(model, document, Engine(model).graphs, tokens)
    in_torch(monkeypatch)
    same(ask(model, document), expected)
    found = passes(model, document, Engine(model).graphs, tokens)
    assert_close(found, reference, rtol=1e-4, atol=1e-4)
    assert "without kernels" not in reasons(caplog)


@pytest.mark.skipif(torch.cuda.is_available(), reason="interprets kernels, for a model on the CPU")
@pytest.mark.parametrize("name", WINDOWED)
def test_kernels_answer_about_windows_as_the_references_do(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = loaded(WINDOWED[name])
    document = read(model, prose(250))
    expected = ask(model, document, max_tokens=2)
    in_triton(monkeypatch)
    same(ask(model, document, max_tokens=2), expected)
    assert "without kernels" not in reasons(caplog)


# -- layers of different widths ------------------------------------------------------------------

WIDTHS, KV_HEADS, VOCABULARY, TOKENS = (16, 48), 2, 11, 90


class TwoWidths(nn.Module):
    """Embeddings, and two attention layers whose heads differ in width."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = [normal(VOCABULARY, KV_HEADS * width, seed=width) for width in WIDTHS]

    def forward(
        self, input_ids: Tensor, lectern: Any, logits_to_keep: int, **_: object
    ) -> "TwoWidths":
        """Attend in both layers; logits are what either attended to."""
        outputs = []
        for layer, rows in enumerate(self.rows):
            heads = rows[input_ids[0]].unflatten(1, (KV_HEADS, -1)).transpose(0, 1)
            scale = 2 / WIDTHS[layer]
            call = AttentionCall(layer, heads, heads, -heads, scale, None, None)
            outputs.append(lectern.attend(call).transpose(0, 1).flatten(1))
        self.logits = torch.cat(outputs, 1)[None, -logits_to_keep:]
        return self


def clustered_layer(width: int) -> LayerCache:
    """A layer of 10 anchors, and clusters of 8 tokens."""
    keys, values = normal(2, KV_HEADS, TOKENS, width, seed=width + 1)
    centroids = keys[:, 10:].unflatten(1, (10, 8)).mean(2)
    offsets = torch.arange(0, 81, 8, dtype=torch.int32).repeat(KV_HEADS, 1)
    positions = torch.arange(TOKENS, dtype=torch.int32).repeat(KV_HEADS, 1)
    return LayerCache(keys, values, positions, 10, Clusters(centroids, offsets), no_clusters(keys))


def test_bytes_of_layers_of_different_widths_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_torch(monkeypatch)
    document = DocumentCache(
        layers=tuple(map(clustered_layer, WIDTHS)),
        ids=torch.zeros(TOKENS, dtype=torch.int64),
        offsets=torch.zeros(TOKENS, 2, dtype=torch.int32),
        text="",
        pages=(),
        num_sinks=4,
        lookup=LookupConfig(),
        curves=NO_CURVES,
    )
    layers = (LayerSpec(KV_HEADS, KV_HEADS, width, 2 / width, None, None) for width in WIDTHS)
    spec, model, asked = ModelSpec(tuple(layers), 4096), TwoWidths(), torch.tensor([3, 1, 4])
    thresholds = Thresholds(-4.6, -4.6)
    reach = SparseClusterAttention(thresholds, document.lookup)
    state = QuestionState(document, reach, reach)
    forward(model, asked, state.position, state)
    graph, meter = DecodeGraph(spec, document, 8), ReadMeter()
    graph.warm_up(model)
    graph.begin(state.keys_and_values())
    for token in torch.tensor([[5], [9]]):
        logits = graph.run(token, thresholds, meter)
        assert_close(logits, forward(model, token, state.position, state)[-1])
    assert meter.read == state.meter.read[1:]
    assert meter.full == state.meter.full[1:]
    assert 0.2 < meter.share() < 0.9
