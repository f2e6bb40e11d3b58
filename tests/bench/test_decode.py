"""Drawn documents, and the thresholds that are found for them."""

import pytest
import torch

from bench.decode import aimed_share, calibrated, curve, passes, reference_question
from bench.decode_plot import draw
from bench.drawn import ModelShape, draw_document, draw_model
from engine.decoders import DecodeConfig
from engine.document import DocumentCache
from engine.model import LoadedModel
from tests.engine.as_on_gpu import in_torch

SHAPE = ModelShape(
    vocab_size=32_000, hidden_size=64, intermediate_size=96, num_layers=2, num_heads=4, kv_heads=2
)
NUM_TOKENS = 1500


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return draw_model(SHAPE, 4096, streaming=True, config=DecodeConfig(), device="cpu")


@pytest.fixture(scope="module")
def document(model: LoadedModel) -> DocumentCache:
    return draw_document(model, NUM_TOKENS)


def test_a_drawn_document_is_one_that_the_model_could_have_read(
    model: LoadedModel, document: DocumentCache
) -> None:
    assert document.num_tokens == NUM_TOKENS
    held = SHAPE.document_bytes(NUM_TOKENS, model.plan.ratio)
    assert sum(layer.keys.nbytes + layer.values.nbytes for layer in document.layers) == held
    for layer, spec in zip(document.layers, model.spec.layers, strict=True):
        assert layer.streaming is not None
        assert layer.num_retrieval + len(layer.streaming.keys) == spec.num_kv_heads
        assert layer.level2.offsets[:, -1].tolist() == [NUM_TOKENS - layer.num_anchors]
        assert layer.positions[0].sort().values.tolist() == list(range(NUM_TOKENS))


def test_thresholds_load_what_is_aimed_at(
    model: LoadedModel, document: DocumentCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_torch(monkeypatch)
    found = calibrated(model, document)
    aim = aimed_share(document)
    for one in (found.curves.prefill, found.curves.decode):
        assert min(one.shares) < aim < max(one.shares)
        assert min(abs(share - aim) for share in one.shares) < 0.02
    _, state = passes(model, reference_question(model, found), None)
    assert state.meter.share(1) == pytest.approx(aim, rel=0.15)


def test_a_curve_rises_and_holds_the_threshold_that_was_looked_for() -> None:
    found = curve(lambda threshold: float(torch.sigmoid(torch.tensor(-threshold - 9.0))), 0.3)
    assert list(found.shares) == sorted(set(found.shares))
    middle = found.at(0.3)
    assert middle is not None
    assert middle.level2 == pytest.approx(-9.0 + 0.847, abs=0.01)  # log(0.7 / 0.3)


def test_the_plot_shows_what_was_measured() -> None:
    times = {"token_ms": {"p50": 5.0}}
    found = draw(
        {
            "model": "tiny",
            "about": {"gpu": "none"},
            "plans": {"half": {"weights_ms": 4.0, "4K": times, "128K": times, "512K": {}}},
        }
    )
    assert [len(line.get_xdata()) for line in found.axes[0].lines] == [2, 2]
