"""Prefills in graphs: padded and packed, each question computes and reads what it does alone."""

import pytest
import torch
from torch.testing import assert_close
from transformers import PretrainedConfig

from engine.config import DecodeConfig
from engine.decode.batch_runner import BatchRunner
from engine.decode.prefill_graphs import SIZES, PrefillGraphs
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
        assert found.state.position == one.state.position
        assert found.state.meter.share() == pytest.approx(one.state.meter.share(), rel=1e-6)
        mine = zip(found.state.keys_and_values(), one.state.keys_and_values(), strict=True)
        for (keys, values), (other_keys, other_values) in mine:
            assert_close(keys, other_keys, rtol=1e-4, atol=1e-4)
            assert_close(values, other_values, rtol=1e-4, atol=1e-4)
        assert found.state.mass is not None
        assert one.state.mass is not None
        assert_close(found.state.mass.on_tokens(), one.state.mass.on_tokens(), rtol=1e-3, atol=1e-5)


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
