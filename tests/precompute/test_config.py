"""Settings of reading, and what an artifact depends on."""

from dataclasses import fields, replace
from typing import Any

import pytest

from engine.config import LookupConfig
from engine.model.head_plan import HeadPlan
from engine.model.loader import LoadedModel
from precompute.config import PrecomputeConfig
from precompute.fingerprint import artifact_fingerprint
from tests.models import FAMILIES, loaded

OTHERS: dict[str, Any] = {
    "chunk_tokens": 7,
    "num_sinks": 5,
    "num_tail": 64,
    "level2_ratio": 0.06,
    "level1_ratio": 0.02,
    "clustering": "other",
    "kmeans_iterations": 11,
    "scope_epsilon": 1e-4,
    "num_probes": 65,
    "reserve_tokens": 128,
    "dtype": "float32",
    "prefill_dtype": "bfloat16",
    "seed": 1,
    "lookup": LookupConfig(levels=2),
}


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


def test_the_same_settings_make_the_same_artifact(model: LoadedModel) -> None:
    assert artifact_fingerprint(model, PrecomputeConfig()) == artifact_fingerprint(
        model, PrecomputeConfig()
    )


@pytest.mark.parametrize("name", [field.name for field in fields(PrecomputeConfig)])
def test_every_setting_makes_another_artifact(model: LoadedModel, name: str) -> None:
    changed = replace(PrecomputeConfig(), **{name: OTHERS[name]})
    before = artifact_fingerprint(model, PrecomputeConfig())
    assert artifact_fingerprint(model, changed) != before


def test_the_aggregation_makes_another_artifact(model: LoadedModel) -> None:
    found = {
        artifact_fingerprint(model, PrecomputeConfig(lookup=LookupConfig(aggregation=how)))
        for how in ("mean", "max", "max_group_mean")
    }
    assert len(found) == 3


def test_another_model_makes_another_artifact(model: LoadedModel) -> None:
    other = replace(model, fingerprint="other")
    settings = PrecomputeConfig()
    assert artifact_fingerprint(model, settings) != artifact_fingerprint(other, settings)


def test_another_plan_makes_another_artifact(model: LoadedModel) -> None:
    retrieval = ((True, False), (True, True))
    plans = [
        model.plan,
        HeadPlan("duo", retrieval),
        HeadPlan("duo", retrieval[::-1]),
        HeadPlan("duo", retrieval, num_sinks=8),
        HeadPlan("duo", retrieval, window=8),
        HeadPlan("duo", retrieval, compensation=False),
    ]
    settings = PrecomputeConfig()
    found = [artifact_fingerprint(replace(model, plan=plan), settings) for plan in plans]
    assert len(set(found)) == len(plans)


def test_how_heads_were_chosen_does_not_make_another_artifact(model: LoadedModel) -> None:
    retrieval = ((True, False), (True, True))
    scores = ((1.0, 0.1), (0.9, 0.8))
    plans = [
        HeadPlan("duo", retrieval),
        HeadPlan("razor", retrieval, scores=scores, settings={"ratio": 0.75}, model="abc"),
    ]
    settings = PrecomputeConfig()
    one, two = (artifact_fingerprint(replace(model, plan=plan), settings) for plan in plans)
    assert one == two
