"""Whole questions in graphs of their own: each computes and reads what it does without them."""

import pytest
from torch.testing import assert_close
from transformers import PretrainedConfig

from engine.config import DecodeConfig
from engine.decode.batch_runner import BatchRunner
from engine.decode.prefill_graphs import PrefillGraphs
from engine.decode.question_graphs import QuestionGraphs
from engine.decode.torch_runner import TorchRunner
from engine.fallbacks import Cause, Fallbacks, Part
from engine.model.head_plan import HeadPlan
from engine.model.loader import LoadedModel
from tests.engine.decode.test_prefill_graph import asked, assert_same_state
from tests.models import FAMILIES, FURTHER, HALF, loaded, prose, read

CLOSE = {"rtol": 2e-4, "atol": 2e-4}


@pytest.fixture
def taken_otherwise(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of parts that are prefilled with attention launched between graphs."""
    lengths: list[int] = []
    prefill = PrefillGraphs.prefill

    def note(self, chunks):
        lengths.extend(len(chunk.ids) for chunk in chunks)
        return prefill(self, chunks)

    monkeypatch.setattr(PrefillGraphs, "prefill", note)
    return lengths


@pytest.mark.parametrize(
    ("config", "plan"),
    [
        (FAMILIES["llama"], None),
        (FAMILIES["llama"], HALF),
        (FAMILIES["gemma2"], None),
        (FURTHER["gpt-oss"], None),
    ],
)
def test_questions_are_prefilled_as_alone(
    config: PretrainedConfig, plan: HeadPlan | None, taken_otherwise: list[int]
) -> None:
    model = loaded(config, plan=plan)
    documents = [read(model, prose(chars, seed=chars)) for chars in (200, 700)]
    graphs, alone = BatchRunner(model, DecodeConfig(), max_rows=8), TorchRunner(model)
    lengths = (3, 40, 17, 1)
    crowd, wanted = (asked(model, runner, documents, lengths) for runner in (graphs, alone))
    together = graphs.prefill([row.next_chunk for row in crowd])
    for found, one, logits in zip(crowd, wanted, together, strict=True):
        assert_close(logits, alone.prefill([one.next_chunk])[0], **CLOSE)
        assert_same_state(found, one)
    assert taken_otherwise == []


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


def test_answers_go_on_behind_such_a_prefill(model: LoadedModel) -> None:
    documents = [read(model, prose(700))]
    graphs, alone = BatchRunner(model, DecodeConfig(), max_rows=2), TorchRunner(model)
    crowd, wanted = (asked(model, runner, documents, (30, 12)) for runner in (graphs, alone))
    for runner, rows in ((graphs, crowd), (alone, wanted)):
        runner.prefill([row.next_chunk for row in rows])
    for step in range(3):
        for row in crowd + wanted:
            row.push(40 + step)
        assert_close(graphs.decode(crowd), alone.decode(wanted), **CLOSE)
    for found, one in zip(crowd, wanted, strict=True):
        graphs.remove(found)
        assert_same_state(found, one)


def test_later_parts_are_taken_behind_the_first(
    model: LoadedModel, taken_otherwise: list[int]
) -> None:
    documents = [read(model, prose(300))]
    graphs, alone = BatchRunner(model, DecodeConfig(), max_rows=2), TorchRunner(model)
    (found,), (one,) = (
        asked(model, runner, documents, (40,), chunk_tokens=16) for runner in (graphs, alone)
    )
    first = graphs.prefill([found.next_chunk])
    assert len(first) == 0
    assert taken_otherwise == []
    assert found.state.mass is not None
    assert found.state.mass.by_place.sum() == 0
    alone.prefill([one.next_chunk])
    while found.num_next_chunk:
        last, expected = graphs.prefill([found.next_chunk]), alone.prefill([one.next_chunk])
    assert sum(taken_otherwise) == len(found.question) - 16
    assert_close(last, expected, **CLOSE)
    assert_same_state(found, one)


def test_what_keeps_to_thresholds_is_prefilled_otherwise(
    model: LoadedModel, taken_otherwise: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [read(model, prose(300))]
    monkeypatch.setattr("engine.attend.question.QuestionState.prefill_tokens", None)
    graphs = BatchRunner(model, DecodeConfig(), max_rows=2)
    crowd = asked(model, graphs, documents, (20, 20))  # the second one at `exact`
    graphs.prefill([row.next_chunk for row in crowd])
    assert taken_otherwise == [len(crowd[0].question)]


def test_documents_that_are_too_long_for_the_graphs_go_without(
    model: LoadedModel, taken_otherwise: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.kernels.question.sizes.QuestionSizes.takes", lambda *_: False)
    documents = [read(model, prose(300))]
    graphs = BatchRunner(model, DecodeConfig(), max_rows=2)
    (row,) = asked(model, graphs, documents, (20,))
    graphs.prefill([row.next_chunk])
    assert taken_otherwise == [len(row.question)]


def test_without_graphs_of_questions_they_are_answered_all_the_same(
    model: LoadedModel, taken_otherwise: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: QuestionGraphs, pool: object) -> None:
        raise RuntimeError("no capture today")

    monkeypatch.setattr(QuestionGraphs, "capture", fail)
    documents = [read(model, prose(300))]
    fallbacks, alone = Fallbacks(), TorchRunner(model)
    graphs = BatchRunner(model, DecodeConfig(), max_rows=2, fallbacks=fallbacks)
    (found,), (one,) = (asked(model, runner, documents, (20,)) for runner in (graphs, alone))
    logits = graphs.prefill([found.next_chunk])
    assert_close(logits, alone.prefill([one.next_chunk]), **CLOSE)
    assert fallbacks.counts()[Part.PREFILL, Cause.FAILED] == 1
    assert taken_otherwise == [len(found.question)]
