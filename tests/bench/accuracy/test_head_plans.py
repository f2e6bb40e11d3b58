"""Head plans and budgets are judged by the engine's answers, on a tiny untrained reader."""

import json
from argparse import Namespace
from dataclasses import replace
from types import SimpleNamespace

import pytest

from bench.accuracy import budgets, head_plans, plan_cases
from bench.accuracy.head_plans import missing_heads, score_plans
from bench.accuracy.plan_cases import cases, measure_methods, streaming_plan
from engine.config import ModelConfig
from engine.model.head_plan import ALL, HeadPlan, plan_all, write_plan
from engine.model.loader import load_model
from precompute.heads.razor import Razor, RazorConfig
from tests.training.material import write_data, write_weights
from training.data.facts import Question
from training.eval_set import EvalDocument
from training.evaluator import Evaluator
from training.model import TINY

SHAPE = replace(TINY, width=96, heads=6, kv_heads=3, head_dim=16)
TEXT = "Mara Stenholt keeps the amber pump in room 4. " * 60
ASKED = ("Who keeps it?", "In which room is the amber pump, and why there?")


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return write_weights(tmp_path_factory.mktemp("weights"), SHAPE)


@pytest.fixture(scope="module")
def spec(weights):
    return load_model(ModelConfig(str(weights), device="cpu", heads=ALL)).spec


@pytest.fixture(autouse=True)
def short_razor(monkeypatch):
    """RazorAttention over a few tokens."""
    short = SimpleNamespace(build=lambda: Razor(RazorConfig(num_ids=40)))
    monkeypatch.setattr(plan_cases, "razor", short)


def test_plans_are_scored_by_what_the_engine_answers_under_them(weights, spec):
    evaluator = Evaluator(weights, device="cpu", heads=ALL)
    cache = evaluator.read(TEXT)
    blank = [Question(text, "", "single") for text in ASKED]
    said = [evaluator.ask(cache, question, 1.0)[0].text for question in blank]
    documents = [
        EvalDocument(TEXT, (Question(text, answer, "single"),))
        for text, answer in zip(ASKED, said, strict=True)
    ]
    plans = [plan_all(spec), replace(streaming_plan(spec), num_sinks=2, window=8)]
    options = Namespace(model=weights, device="cpu", workers=1)
    full, streaming = score_plans(plans, documents, options)
    assert [score.right for score in full] == [True, True]
    assert [score.right for score in streaming] == [False, False]


def test_cases_have_methods_controls_and_variants(weights, spec):
    model = load_model(ModelConfig(str(weights), device="cpu", heads=ALL))
    gates = HeadPlan("duo", plan_all(spec).retrieval, scores=((0.1, 0.9, 0.5), (0.2, 0.3, 0.4)))
    found = list(cases(model, measure_methods(model, gates), 4096))
    assert {case.method for case in found} == {
        "all", "streaming", "duo", "razor", "zigzag", "random",
    }  # fmt: skip
    assert {case.variant for case in found} == {
        "", "without compensation", "the paper's window",
    }  # fmt: skip
    assert all(not case.plan.compensation for case in found if "without" in case.variant)


def test_costly_heads_that_stream_are_missing():
    alone = [
        {"layer": 0, "head": 0, "cost": 0.5},
        {"layer": 0, "head": 1, "cost": 0.051},
        {"layer": 1, "head": 0, "cost": 0.05},
        {"layer": 1, "head": 1, "cost": -0.01},
    ]
    plan = HeadPlan("file", ((True, False), (False, False)))
    assert missing_heads(alone, plan) == [[0, 1]]


def test_both_programs_run_from_end_to_end(weights, spec, tmp_path, monkeypatch):
    data = tmp_path / "data"
    data.mkdir()
    write_data(data)
    plan = tmp_path / "plan.json"
    scores = ((0.1, 0.9, 0.5), (0.2, 0.3, 0.4))
    retrieval = ((False, True, True), (False, False, True))
    write_plan(HeadPlan("duo", retrieval, scores=scores, model=_weights_of(weights)), plan)
    small = ["--model", str(weights), "--data", str(data), "--documents", "1", "--questions", "1"]
    monkeypatch.setattr(head_plans, "cases", lambda *_: list(cases(*_))[:4])
    monkeypatch.setattr(head_plans, "summarise", lambda rows: {"rows": len(rows)})
    monkeypatch.setattr(head_plans, "plans_without_one", lambda _: [(0, 0, plan_all(spec))])
    given = [*small, "--device", "cpu", "--lengths", "700", "--alone-at", "700"]
    monkeypatch.setattr(
        "sys.argv", ["head_plans", *given, "--duo", str(plan), "--out", str(tmp_path)]
    )
    head_plans.main()
    result = json.loads((tmp_path / "heads.json").read_text())
    assert [len(row["right"]) for row in result["rows"]] == [1] * 4
    assert result["alone"]["heads"][0]["cost"] == 0.0
    monkeypatch.setattr(budgets, "check", lambda *_: None)  # its limit is for a trained reader
    monkeypatch.setattr(budgets, "BUDGETS", (0.3,))
    monkeypatch.setattr(budgets, "HELD", (0.0, 1.0))
    given = [*small, "--tokens", "700", "--heads", str(plan), "--budgets", "0.3"]
    monkeypatch.setattr("sys.argv", ["budgets", *given, "--out", str(tmp_path)])
    budgets.main()
    result = json.loads((tmp_path / "budgets.json").read_text())
    assert [point["requested"] for point in result["points"]] == [0.3, 1.0]
    dual = json.loads((tmp_path / "dual.json").read_text())
    assert dual["plans"][0]["method"] == "duo"


def _weights_of(folder):
    return load_model(ModelConfig(str(folder), device="cpu", heads=ALL)).weights
