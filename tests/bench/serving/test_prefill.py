"""The benchmark of prefill gives no figure for a prefill that is not what it is defined to be."""

from dataclasses import replace

import pytest
import torch

from bench.serving import prefill as bench
from engine.model.head_plan import plan_all
from engine.model.loader import LoadedModel
from precompute import prefill as product
from precompute.streaming_prefill import StreamingPrefill
from tests.models import FAMILIES, HALF, loaded


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> tuple[LoadedModel, LoadedModel]:
    """A tiny model with streaming heads, and as if it had none."""
    monkeypatch.setattr(bench, "CHECKED_TOKENS", 300)
    monkeypatch.setattr(bench, "CHECKED_CHUNK", 100)
    monkeypatch.setattr(bench, "CHECKED_LAYER", 1)
    monkeypatch.setattr(bench, "random_ids", lambda count: torch.arange(count) * 7 % 256)
    dual = loaded(FAMILIES["llama"], plan=HALF)
    return dual, replace(dual, plan=plan_all(dual.spec))


def test_the_products_prefill_is_told_from_full_attention(
    models: tuple[LoadedModel, LoadedModel],
) -> None:
    found = bench.check_prefill(*models)
    assert max(found["retrieval_error"], found["streaming_error"]) < 1e-4
    assert found["full_attention_error"] > 2 * found["tolerance"]


def test_another_window_is_noticed(
    monkeypatch: pytest.MonkeyPatch, models: tuple[LoadedModel, LoadedModel]
) -> None:
    def wider(nothing: torch.Tensor, num_sinks: int, window: int) -> StreamingPrefill:
        return StreamingPrefill(nothing, num_sinks, 2 * window)

    monkeypatch.setattr(product, "StreamingPrefill", wider)
    with pytest.raises(SystemExit, match="not what it is defined to be"):
        bench.check_prefill(*models)


def test_a_check_that_could_not_fail_is_noticed(models: tuple[LoadedModel, LoadedModel]) -> None:
    dual, full = models
    whole = replace(dual.plan, window=300 - dual.plan.num_sinks)  # nothing leaves the window
    with pytest.raises(SystemExit, match="not what it is defined to be"):
        bench.check_prefill(replace(dual, plan=whole), full)
