"""Prefills in graphs: each part of a question computes and reads what it does without them."""

import pytest
import torch
from torch.testing import assert_close
from transformers import PretrainedConfig

from engine.config import DecodeConfig
from engine.decode.batch_runner import BatchRunner
from engine.decode.question_graph import QuestionGraph
from engine.decode.question_graphs import OWN_TOKENS, SIZES, QuestionGraphs
from engine.decode.running_answer import RunningAnswer
from engine.decode.sampling import Sampling
from engine.decode.torch_runner import TorchRunner
from engine.document.budget import EXACT
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.fallbacks import Cause, Fallbacks, Part
from engine.model.head_plan import HeadPlan
from engine.model.loader import LoadedModel
from tests.models import FAMILIES, FURTHER, HALF, loaded, prose, read

CLOSE = {"rtol": 2e-4, "atol": 2e-4}


def asked(
    model: LoadedModel,
    runner: TorchRunner,
    documents: list[DocumentCache],
    lengths: tuple[int, ...],
    chunk_tokens: int = 512,
) -> list[RunningAnswer]:
    """Questions of about four times so many tokens, every other one at `exact`."""
    engine = Engine(model, DecodeConfig(question_chunk_tokens=chunk_tokens), runner=runner)
    return [
        engine.start(
            documents[index % len(documents)],
            prose(4 * length, seed=index),
            budget=EXACT if index % 2 else 0.5,
            sampling=Sampling(4),
        )
        for index, length in enumerate(lengths)
    ]


def assert_same_state(found: RunningAnswer, expected: RunningAnswer) -> None:
    """Two questions hold, have read, and have attended to the same."""
    mine, other = found.state, expected.state
    assert mine.position == other.position
    assert mine.num_prefill == other.num_prefill
    assert mine.meter.num_prefills == other.meter.num_prefills
    assert mine.meter.full == other.meter.full
    assert mine.meter.windowed == other.meter.windowed
    assert mine.meter.read == pytest.approx(other.meter.read, rel=1e-6)
    for pair in zip(mine.keys_and_values(), other.keys_and_values(), strict=True):
        for part, other_part in zip(*pair, strict=True):
            assert_close(part, other_part, rtol=1e-4, atol=1e-4)
    assert mine.mass is not None
    assert other.mass is not None
    assert_close(mine.mass.on_tokens(), other.mass.on_tokens(), rtol=1e-3, atol=1e-5)


@pytest.fixture
def without_graphs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of parts that a `BatchRunner` prefills without a graph."""
    lengths: list[int] = []
    prefill = TorchRunner.prefill

    def note(self, chunks):
        if isinstance(self, BatchRunner):
            lengths.extend(len(chunk.ids) for chunk in chunks)
        return prefill(self, chunks)

    monkeypatch.setattr(TorchRunner, "prefill", note)
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
@pytest.mark.parametrize("chunk_tokens", [512, 32])
def test_questions_are_prefilled_as_alone(
    config: PretrainedConfig, plan: HeadPlan | None, chunk_tokens: int, without_graphs: list[int]
) -> None:
    model = loaded(config, plan=plan)
    documents = [read(model, prose(chars, seed=chars)) for chars in (200, 700)]
    graphs, alone = BatchRunner(model, DecodeConfig(), max_rows=8), TorchRunner(model)
    lengths = (3, 20, 17, 1)
    crowd, wanted = (
        asked(model, runner, documents, lengths, chunk_tokens) for runner in (graphs, alone)
    )
    while going := [row for row in crowd if row.num_next_chunk]:
        others = [wanted[crowd.index(row)] for row in going]
        last = [row for row in going if row.next_chunk.is_last]
        together = graphs.prefill([row.next_chunk for row in going])
        assert len(together) == len(last)
        expected = [alone.prefill([one.next_chunk]) for one in others]
        for logits, one in zip(together, (each for each in expected if len(each)), strict=True):
            assert_close(logits, one[0], **CLOSE)
    for found, one in zip(crowd, wanted, strict=True):
        assert_same_state(found, one)
    assert without_graphs == []


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many questions each pass of a graph has."""
    numbers: list[int] = []
    run = QuestionGraph.run

    def note(self, questions):
        numbers.append(len(questions))
        return run(self, questions)

    monkeypatch.setattr(QuestionGraph, "run", note)
    return numbers


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


@pytest.mark.parametrize(
    ("lengths", "max_rows", "expected"),
    [
        ((8, 5), 8, [2]),
        ((8, 5, 1), 8, [3]),
        ((8, 5, 1, 7, 9, 6, 2), 8, [4, 3]),
        ((8, 28, 27), 8, [2, 1]),  # about 110 tokens: two of them, and the short one
        ((8, 5, 1), 2, [2, 1]),
        ((8, 5), 1, [1, 1]),
        ((60, 61), 8, [1, 1]),
    ],
)
def test_short_questions_share_a_pass(
    model: LoadedModel,
    passes: list[int],
    lengths: tuple[int, ...],
    max_rows: int,
    expected: list[int],
) -> None:
    documents = [read(model, prose(chars, seed=chars)) for chars in (200, 700)]
    graphs, alone = BatchRunner(model, DecodeConfig(), max_rows=max_rows), TorchRunner(model)
    crowd, wanted = (asked(model, runner, documents, lengths) for runner in (graphs, alone))
    for _ in range(2):  # fewer questions than before leave nothing of those
        passes.clear()
        together = graphs.prefill([row.next_chunk for row in crowd])
        assert passes == expected
        for logits, row, one in zip(together, crowd, wanted, strict=True):
            assert_close(logits, alone.prefill([one.next_chunk])[0], **CLOSE)
            assert_same_state(row, one)
        crowd, wanted = (asked(model, runner, documents, lengths[:1]) for runner in (graphs, alone))
        expected = [1]


def test_a_later_pass_of_fewer_questions_adds_nothing_to_those_of_an_earlier_one(
    model: LoadedModel, passes: list[int]
) -> None:
    graphs = BatchRunner(model, DecodeConfig(), max_rows=4)
    crowd = asked(model, graphs, [read(model, prose(300))], (8, 5, 1, 7, 9, 6, 2))
    graphs.prefill([row.next_chunk for row in crowd[:4]])
    masses = [row.state.mass for row in crowd[:4]]
    before = [mass.by_place.clone() for mass in masses if mass is not None]
    graphs.prefill([row.next_chunk for row in crowd[4:]])
    assert passes == [4, 3]
    for mass, earlier in zip(masses, before, strict=True):
        assert mass is not None
        assert torch.equal(mass.by_place, earlier)


def test_questions_behind_many_own_tokens_have_a_pass_of_their_own(
    model: LoadedModel, passes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.decode.question_graphs.SHARED_OWN_TOKENS", 64)
    monkeypatch.setattr("engine.decode.question_graphs.SHARED_SIZES", ((64, (2, 4)),))
    documents = [read(model, prose(300))]
    graphs, alone = BatchRunner(model, DecodeConfig(), max_rows=4), TorchRunner(model)
    crowd, wanted = (
        asked(model, runner, documents, (30, 30, 30), chunk_tokens=40) for runner in (graphs, alone)
    )
    graphs.prefill([row.next_chunk for row in crowd])
    assert passes == [3]
    graphs.prefill([row.next_chunk for row in crowd])
    assert passes == [3, 1, 1, 1]
    for row, one in zip(crowd, wanted, strict=True):
        for _ in range(2):
            alone.prefill([one.next_chunk])
        assert_same_state(row, one)


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


def test_later_passes_leave_the_keys_of_earlier_ones_alone(model: LoadedModel) -> None:
    documents = [read(model, prose(300))]
    graphs = BatchRunner(model, DecodeConfig(), max_rows=2)
    first, second = asked(model, graphs, documents, (30, 30))
    graphs.prefill([first.next_chunk])
    kept = [keys.clone() for keys, _ in first.state.keys_and_values()]
    graphs.prefill([second.next_chunk])
    for (keys, _), before in zip(first.state.keys_and_values(), kept, strict=True):
        assert torch.equal(keys, before)


def test_only_the_last_part_collects_evidence(model: LoadedModel) -> None:
    documents = [read(model, prose(300))]
    graphs = BatchRunner(model, DecodeConfig(), max_rows=2)
    (row,) = asked(model, graphs, documents, (40,), chunk_tokens=100)
    assert len(graphs.prefill([row.next_chunk])) == 0
    assert row.state.mass is not None
    assert row.state.mass.by_place.sum() == 0
    while row.num_next_chunk:
        graphs.prefill([row.next_chunk])
    assert row.state.mass.by_place.sum() > 0


def test_a_part_that_no_graph_holds_is_prefilled_without_one(
    model: LoadedModel, without_graphs: list[int]
) -> None:
    documents = [read(model, prose(300))]
    fallbacks, alone = Fallbacks(), TorchRunner(model)
    graphs = BatchRunner(model, DecodeConfig(), max_rows=2, fallbacks=fallbacks)
    lengths = (SIZES[-1] // 4 + 10, 10)
    crowd, wanted = (
        asked(model, runner, documents, lengths, chunk_tokens=OWN_TOKENS)
        for runner in (graphs, alone)
    )
    together = graphs.prefill([row.next_chunk for row in crowd])
    for logits, one in zip(together, wanted, strict=True):
        assert_close(logits, alone.prefill([one.next_chunk])[0], **CLOSE)
    assert without_graphs == [len(crowd[0].question)]
    assert fallbacks.counts()[Part.PREFILL, Cause.NO_ROOM] == 1


def test_a_part_behind_more_tokens_than_a_graph_holds_goes_without_one(
    model: LoadedModel, without_graphs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.decode.question_graphs.SIZES", (32,))
    monkeypatch.setattr("engine.decode.question_graphs.OWN_TOKENS", 64)
    documents = [read(model, prose(300))]
    graphs = BatchRunner(model, DecodeConfig(), max_rows=2)
    (row,) = asked(model, graphs, documents, (30,), chunk_tokens=32)
    while row.num_next_chunk:
        graphs.prefill([row.next_chunk])
    assert sum(without_graphs) == len(row.question) - 64


def test_what_keeps_to_thresholds_is_prefilled_without_a_graph(
    model: LoadedModel, without_graphs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [read(model, prose(300))]
    monkeypatch.setattr("engine.attend.question.QuestionState.prefill_tokens", None)
    fallbacks = Fallbacks()
    graphs = BatchRunner(model, DecodeConfig(), max_rows=2, fallbacks=fallbacks)
    crowd = asked(model, graphs, documents, (20, 20))  # the second one at `exact`
    graphs.prefill([row.next_chunk for row in crowd])
    assert without_graphs == [len(crowd[0].question)]
    assert fallbacks.counts()[Part.PREFILL, Cause.UNSUPPORTED] == 1


def test_without_graphs_questions_are_answered_all_the_same(
    model: LoadedModel, without_graphs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: QuestionGraphs, pool: object) -> None:
        raise RuntimeError("no capture today")

    monkeypatch.setattr(QuestionGraphs, "prepare", fail)
    documents = [read(model, prose(300))]
    fallbacks, alone = Fallbacks(), TorchRunner(model)
    graphs = BatchRunner(model, DecodeConfig(), max_rows=2, fallbacks=fallbacks)
    (found,), (one,) = (asked(model, runner, documents, (20,)) for runner in (graphs, alone))
    logits = graphs.prefill([found.next_chunk])
    assert_close(logits, alone.prefill([one.next_chunk]), **CLOSE)
    assert fallbacks.counts()[Part.PREFILL, Cause.FAILED] == 1
    assert without_graphs == [len(found.question)]
