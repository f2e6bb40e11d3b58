"""What a first token is held against: both ways attend to the same keys; each plan has ratios."""

from typing import Any

import pytest

from bench.random_llama import ModelShape
from bench.serving import resident_baselines
from bench.serving.resident_baselines import add_ratios, first_token_baselines
from bench.serving.synthetic import draw_document, draw_model
from bench.timing import WrongResult
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.loader import LoadedModel

SHAPE = ModelShape(
    vocab_size=32_000, hidden_size=64, intermediate_size=96, num_layers=2, num_heads=4, kv_heads=2
)


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return draw_model(SHAPE, 1024, streaming=False, device="cpu")


@pytest.fixture(scope="module")
def document(model: LoadedModel) -> DocumentCache:
    return draw_document(model, 700)


@pytest.fixture(autouse=True)
def few_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident_baselines, "REPEATS", 2)
    monkeypatch.setattr(resident_baselines, "WARM", 1)


def test_both_ways_give_the_same_logits_and_the_engine_works_afterwards(
    model: LoadedModel, document: DocumentCache
) -> None:
    before = resident_baselines._exact_logits(model, document)
    found = first_token_baselines(model, document)
    assert found["logit_error"] < 0.05
    assert found["full_attention_resident_ms"]["n"] == found["warm_prefix_ms"]["n"] == 1
    assert resident_baselines._exact_logits(model, document).equal(before)
    assert Engine(model).model is model


def test_a_prefix_cache_of_another_document_has_no_figure(
    model: LoadedModel, document: DocumentCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm = resident_baselines._warm_prefix(model, draw_document(model, 500))
    monkeypatch.setattr(resident_baselines, "_warm_prefix", lambda *_: warm)
    monkeypatch.setattr(resident_baselines, "LIMIT", 0.05)
    with pytest.raises(WrongResult, match="warm prefix"):
        first_token_baselines(model, document)


def test_every_plan_is_held_against_what_was_measured_with_all_heads() -> None:
    baselines = {"full_attention_resident_ms": {"p50": 60.0}, "warm_prefix_ms": {"p50": 90.0}}
    plans: dict[str, dict[str, Any]] = {
        "half": {"128K": {"first_token_ms": {"p50": 30.0}}, "ratios": {"reread": 9.0}},
        "all": {"128K": {"first_token_ms": {"p50": 60.0}, "first_token_baselines": baselines}},
    }
    add_ratios(plans, "128K")
    assert plans["half"]["ratios"] == {
        "reread": 9.0,
        "full_attention_resident_to_first_token": 2.0,
        "warm_prefix_to_first_token": 3.0,
    }
    assert plans["all"]["ratios"]["warm_prefix_to_first_token"] == 1.5
    add_ratios({"half": {}}, "128K")
