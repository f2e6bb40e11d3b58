"""Drawn documents, the thresholds that are found for them, and plans that fail."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import bench.serving.decode as decoding
from bench.plots import draw_decode as draw
from bench.random_llama import ModelShape
from bench.serving.decode_check import Comparison, passes, reference_question
from bench.serving.synthetic import draw_document, draw_model
from bench.serving.synthetic_question import aimed_share, calibrated, curve
from bench.timing import WrongResult
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.loader import LoadedModel
from tests.engine.as_on_gpu import in_torch

SHAPE = ModelShape(
    vocab_size=32_000, hidden_size=64, intermediate_size=96, num_layers=2, num_heads=4, kv_heads=2
)
NUM_TOKENS = 1500


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return draw_model(SHAPE, 4096, streaming=True, device="cpu")


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
            "plans": {
                "all": {"failed": "too far"},
                "half": {"weights_ms": 4.0, "4K": times, "128K": times, "512K": {}},
            },
        }
    )
    assert [len(line.get_xdata()) for line in found.axes[0].lines] == [2, 2]


# -- plans that fail -----------------------------------------------------------------------------

WRONG = Comparison({"heads": 1.0}, {"logits": 0.1}, {"heads": 0.1})


def test_a_plan_that_is_wrong_has_no_figures_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[bool] = []

    def draw_none(*_: object, streaming: bool, **__: object) -> LoadedModel:
        drawn.append(streaming)
        return draw_model(SHAPE, 64, streaming=streaming, device="cpu")

    comparisons = iter((WRONG, Comparison({"heads": 0.01}, {"logits": 0.1}, {"heads": 0.1})))
    monkeypatch.setattr(decoding, "draw_model", draw_none)
    monkeypatch.setattr(decoding, "draw_document", lambda *_: None)
    monkeypatch.setattr(decoding, "calibrated", lambda *_: None)
    monkeypatch.setattr(decoding, "compare", lambda *_: next(comparisons))
    monkeypatch.setattr(decoding, "is_captured", lambda *_: True)
    monkeypatch.setattr(decoding, "measure_document", lambda *_: {"token_ms": {"p50": 5.0}})
    monkeypatch.setattr(decoding, "copy_bandwidth", lambda: 4e12)
    monkeypatch.setattr(decoding, "circumstances", lambda *_: {})
    monkeypatch.setattr(decoding, "release", lambda: None)
    given = ["--contexts", "4K", "--plans", "all", "half", "--out", str(tmp_path)]
    with pytest.raises(SystemExit, match="No figures, or not all: all"):
        decoding.main(given)
    plans = json.loads((tmp_path / "decode_llama3_8b.json").read_text())["plans"]
    assert drawn == [False, True]
    assert set(plans["all"]) == {"correctness", "failed"}
    assert plans["all"]["failed"].startswith("WrongResult: Too far from the reference")
    assert plans["all"]["correctness"]["failed"] == ["heads"]
    assert plans["half"]["4K"]["token_ms"] == {"p50": 5.0}
    assert "failed" not in plans["half"]


def test_what_a_plan_found_before_it_failed_is_kept(tmp_path: Path) -> None:
    def measuring(found: dict[str, Any]) -> Iterator[None]:
        found["4K"] = 1.0
        yield
        raise torch.OutOfMemoryError("no room")

    found: dict[str, Any] = {}
    decoding.attempt(found, measuring(found), lambda: tmp_path)
    assert found == {"4K": 1.0, "failed": "OutOfMemoryError: no room"}


def test_nothing_is_measured_where_no_graph_was_captured(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Comparison({}, {}, {})
    monkeypatch.setattr(decoding, "draw_document", lambda *_: None)
    monkeypatch.setattr(decoding, "calibrated", lambda *_: None)
    monkeypatch.setattr(decoding, "compare", lambda *_: right)
    monkeypatch.setattr(decoding, "is_captured", lambda *_: False)
    with pytest.raises(WrongResult, match="Nothing was captured"):
        decoding.check({}, Engine(model))
