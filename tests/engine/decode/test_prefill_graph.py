"""Prefills in graphs between which attention is launched: each question's pass is what it is alone.

They take what `QuestionGraphs` does not, which here is everything.
"""

import pytest
import torch
from torch.testing import assert_close
from transformers import PretrainedConfig

from engine.config import DecodeConfig
from engine.decode.batch_runner import BatchRunner
from engine.decode.prefill_graphs import SIZES, PrefillGraphs
from engine.decode.question_graphs import QuestionGraphs
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


@pytest.fixture(autouse=True)
def _no_questions_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QuestionGraphs, "takes", lambda *_: False)


def asked(
    model: LoadedModel,
    runner: TorchRunner,
    documents: list[DocumentCache],
    lengths: tuple[int, ...],
    chunk_tokens: int = 512,
) -> list[RunningAnswer]:
    """Questions of about so many tokens, every other one at `exact`."""
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


@pytest.mark.parametrize(
    ("config", "plan"),
    [
        (FAMILIES["llama"], None),
        (FAMILIES["llama"], HALF),
        (FAMILIES["gemma2"], None),
        (FURTHER["gpt-oss"], None),
    ],
)
def test_questions_of_one_pass_are_prefilled_as_alone(
    config: PretrainedConfig, plan: HeadPlan | None
) -> None:
    model = loaded(config, plan=plan)
    documents = [read(model, prose(chars, seed=chars)) for chars in (200, 700)]
    graphs, alone = BatchRunner(model, DecodeConfig(), max_rows=8), TorchRunner(model)
    lengths = (3, 40, 17, 1)
    crowd = asked(model, graphs, documents, lengths)
    wanted = asked(model, alone, documents, lengths)
    together = graphs.prefill([row.next_chunk for row in crowd])
    for found, one, logits in zip(crowd, wanted, together, strict=True):
        assert_close(logits, alone.prefill([one.next_chunk])[0], rtol=2e-4, atol=2e-4)
        assert_same_state(found, one)


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


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


def test_later_passes_leave_the_keys_of_earlier_ones_alone(model: LoadedModel) -> None:
    documents = [read(model, prose(300))]
    graphs = BatchRunner(model, DecodeConfig(), max_rows=2)
    first, second = asked(model, graphs, documents, (30, 30))
    graphs.prefill([first.next_chunk])
    kept = [keys.clone() for keys, _ in first.state.keys_and_values()]
    graphs.prefill([second.next_chunk])
    for (keys, _), before in zip(first.state.keys_and_values(), kept, strict=True):
        assert torch.equal(keys, before)


def test_more_parts_than_a_pass_holds_take_several(model: LoadedModel) -> None:
    documents = [read(model, prose(300))]
    graphs, alone = BatchRunner(model, DecodeConfig(), max_rows=2), TorchRunner(model)
    lengths = (4,) * 9
    crowd, wanted = (asked(model, runner, documents, lengths) for runner in (graphs, alone))
    together = graphs.prefill([row.next_chunk for row in crowd])
    for logits, one in zip(together, wanted, strict=True):
        assert_close(logits, alone.prefill([one.next_chunk])[0], rtol=2e-4, atol=2e-4)


def test_a_part_that_no_graph_holds_is_prefilled_without_one(model: LoadedModel) -> None:
    documents = [read(model, prose(300))]
    fallbacks, alone = Fallbacks(), TorchRunner(model)
    graphs = BatchRunner(model, DecodeConfig(), max_rows=2, fallbacks=fallbacks)
    lengths = (SIZES[-1], 10)
    crowd, wanted = (
        asked(model, runner, documents, lengths, chunk_tokens=8 * SIZES[-1])
        for runner in (graphs, alone)
    )
    assert len(crowd[0].next_chunk.ids) > SIZES[-1]
    together = graphs.prefill([row.next_chunk for row in crowd])
    for logits, one in zip(together, wanted, strict=True):
        assert_close(logits, alone.prefill([one.next_chunk])[0], rtol=2e-4, atol=2e-4)
    assert fallbacks.counts()[Part.PREFILL, Cause.NO_ROOM] == 1


def test_without_graphs_of_prefills_questions_are_answered_all_the_same(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: PrefillGraphs, pool: object) -> None:
        raise RuntimeError("no capture today")

    monkeypatch.setattr(PrefillGraphs, "capture", fail)
    documents = [read(model, prose(300))]
    fallbacks, alone = Fallbacks(), TorchRunner(model)
    graphs = BatchRunner(model, DecodeConfig(), max_rows=2, fallbacks=fallbacks)
    (found,), (one,) = (asked(model, runner, documents, (20,)) for runner in (graphs, alone))
    logits = graphs.prefill([found.next_chunk])
    assert_close(logits, alone.prefill([one.next_chunk]), rtol=2e-4, atol=2e-4)
    assert fallbacks.counts()[Part.PREFILL, Cause.FAILED] == 1
