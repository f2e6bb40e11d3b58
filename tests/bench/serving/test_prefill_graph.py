"""What whole prefills are held against: both ways are asked the same, and checked."""

import pytest
import torch

from bench.random_llama import ModelShape
from bench.serving import prefill_graph
from bench.serving.synthetic import draw_document, draw_model
from bench.serving.synthetic_question import aimed_share
from bench.timing import WrongResult
from engine.config import DecodeConfig
from engine.decode.batch_runner import BatchRunner
from engine.decode.question_graphs import QuestionGraphs
from engine.decode.torch_runner import TorchRunner
from engine.document.budget import EXACT
from engine.engine import Engine
from engine.model.loader import LoadedModel

SHAPE = ModelShape(
    vocab_size=32_000, hidden_size=64, intermediate_size=96, num_layers=2, num_heads=4, kv_heads=2
)


@pytest.fixture(autouse=True)
def without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefill_graph, "REPEATS", 2)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return draw_model(SHAPE, 2048, streaming=False, device="cpu")


@pytest.mark.parametrize("length", [40, 200])
def test_both_ways_are_timed_where_they_agree(
    model: LoadedModel, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []
    prefill = QuestionGraphs.prefill
    monkeypatch.setattr(QuestionGraphs, "prefill", lambda *a: taken.append(a) or prefill(*a))
    document = prefill_graph.with_split(draw_document(model, 900))
    question = prefill_graph.question_of(model, length)
    assert len(model.prompt.encode_question(question)) <= length
    runners = BatchRunner(model, DecodeConfig(), max_rows=1), TorchRunner(model)
    engines = [Engine(model, runner=runner) for runner in runners]
    for budget in (aimed_share(document), EXACT):
        row = prefill_graph.measure(engines, document, question, budget)
        assert 0.75 * length < row["question_tokens"] <= length
        assert row["captured_ms"]["n"] == row["launched_ms"]["n"] == 2
        assert row["loaded"] == pytest.approx(budget, abs=0.05)
    assert taken


def test_what_differs_has_no_figures(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefill_graph, "TOLERANCE", 0.0)
    document = prefill_graph.with_split(draw_document(model, 900))
    engines = [Engine(model, runner=TorchRunner(model))] * 2
    with pytest.raises(WrongResult, match="logits"):
        prefill_graph.measure(engines, document, "1", EXACT)


def test_a_crowd_is_timed_where_each_gets_what_it_gets_alone(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = prefill_graph.with_split(draw_document(model, 900))
    engine = Engine(model, runner=BatchRunner(model, DecodeConfig(), max_rows=4))
    questions = [prefill_graph.question_of(model, 60, seed=seed) for seed in range(3)]
    row = prefill_graph.measure_crowd(engine, document, questions, EXACT)
    assert row["captured_ms"]["n"] == 2
    monkeypatch.setattr(prefill_graph, "TOLERANCE", 0.0)
    with pytest.raises(WrongResult, match="logits"):
        prefill_graph.measure_crowd(engine, document, questions, EXACT)
