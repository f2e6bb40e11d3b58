"""What a first token is held against: every way is asked, and a ratio is of one question."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from bench.serving import first_token as program
from bench.serving.first_token import (
    document_of,
    measure,
    prefix_of,
    ratios,
    read_and_reload,
    warm_prefix,
)
from engine.config import ModelConfig
from engine.model.head_plan import ALL
from engine.model.loader import load_model
from precompute.config import PrecomputeConfig
from tests.training.material import write_weights
from training.model import TINY

WAYS = {"lectern_balanced", "full_attention_resident", "transformers_warm_prefix"}


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_weights(tmp_path_factory.mktemp("weights"), TINY)


def test_a_ratio_is_of_the_same_question_and_re_reading_is_under_the_plan_that_is_served() -> None:
    first = {
        "lectern_balanced": [1.0, 2.0, 4.0],
        "full_attention_resident": [3.0, 6.0, 12.0],
        "transformers_warm_prefix": [4.0, 10.0, 24.0],
    }
    found = ratios(first, 100.0)
    assert found["reread"]["p50"] == 50.0
    assert set(found["full_attention_resident"].values()) == {3.0}
    assert found["transformers_warm_prefix"]["p50"] == 5.0


def test_every_way_is_asked_after_the_logits_were_compared(
    weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "QUESTIONS", program.QUESTIONS[:2])
    found = measure(str(weights), 400, 2, "cpu")
    assert found["document_tokens"] == 400
    assert found["first_token_ms"].keys() == WAYS
    assert found["reread_ms"].keys() == {"served_plan", "all_heads", "transformers_all_heads"}
    assert found["ratios"].keys() == {"reread", *WAYS} - {"lectern_balanced"}
    assert all(ratio["n"] == 4 for ratio in found["ratios"].values())
    assert found["correctness"]["largest_logit_error"] < found["correctness"]["tolerance"]
    model = load_model(ModelConfig(str(weights), device="cpu"))
    assert found["weights"] == model.weights
    assert len(model.prompt.encode_document(document_of(model, "A word. ", 300)).ids) == 300


def test_transformers_has_the_same_prefix_whoever_has_read_it(weights: Path) -> None:
    model = load_model(ModelConfig(str(weights), device="cpu", heads=ALL))
    plain = AutoModelForCausalLM.from_pretrained(weights, dtype=model.dtype)
    settings = replace(PrecomputeConfig(), dtype="float32")
    document, _ = read_and_reload(model, document_of(model, "A word, and 7. ", 600), settings)
    read, given = warm_prefix(plain, document), prefix_of(plain, document)
    assert any(layer.has_clusters for layer in document.layers), "else nothing is out of order"
    for ours, theirs in zip(given.layers, read.layers, strict=True):
        torch.testing.assert_close(ours.keys, theirs.keys, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(ours.values, theirs.values, rtol=1e-4, atol=1e-4)


def test_logits_that_differ_give_no_figure(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "TOLERANCE", 0.0)
    with pytest.raises(SystemExit, match="no figure"):
        measure(str(weights), 400, 1, "cpu")
