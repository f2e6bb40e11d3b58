"""Answers that share passes: each computes and reads what it does alone."""

from collections.abc import Sequence

import pytest
from torch import Tensor
from torch.testing import assert_close
from transformers import PretrainedConfig

from engine.attend.question import QuestionState
from engine.attend.rows import attend_rows
from engine.config import DecodeConfig
from engine.decode.running_answer import RunningAnswer
from engine.decode.sampling import Sampling
from engine.decode.torch_runner import TorchRunner
from engine.document.budget import EXACT
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.kernels.shared.state import State
from engine.model.attention import AttentionCall
from engine.model.head_plan import HeadPlan
from engine.model.loader import LoadedModel
from tests.models import ALIBI, FAMILIES, HALF, loaded, prose, read

QUESTIONS = ("Who sold the maps?", "Where?", "How many lamps are there, and who counted them?")
BUDGETS = (0.4, EXACT, 0.6)
GATHERED, WHOLE = 1.0, 0.0  # how the keys come that any row reads


def start(
    engine: Engine,
    document: DocumentCache,
    number: int,
    budgets: tuple[float, ...] = BUDGETS,
) -> RunningAnswer:
    """A question with a budget of its own."""
    question, budget = QUESTIONS[number % 3], budgets[number % 3]
    return engine.start(document, question, budget=budget, sampling=Sampling(8))


def logits_of(runner: TorchRunner, rows: list[RunningAnswer], step: int) -> Tensor:
    """Of the prefill for step 0, else of a token that is given."""
    if step == 0:
        return runner.prefill([row.next_chunk for row in rows]).clone()
    for row in rows:
        row.push(40 + step)
    return runner.decode(rows).clone()


@pytest.mark.parametrize(
    ("config", "plan", "most"),
    [
        # One short document and one long have passes of their own.
        (FAMILIES["phi3-longrope"], None, GATHERED),
        (FAMILIES["llama"], HALF, GATHERED),
        (FAMILIES["llama"], HALF, WHOLE),
        (FAMILIES["gemma2"], None, WHOLE),
        (ALIBI["mpt"], None, WHOLE),
    ],
)
def test_logits_and_reads_in_a_crowd_are_those_alone(
    config: PretrainedConfig, plan: HeadPlan | None, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.attend.rows.MOST", most)
    budgets = (0.4, 0.5, 0.6) if most == GATHERED else BUDGETS  # who reads all needs no union
    shared: list[int] = []

    def counted(states: Sequence[QuestionState], call: AttentionCall, own: State) -> Tensor:
        shared.append(len(states))
        return attend_rows(states, call, own)

    monkeypatch.setattr("engine.decode.packed_pass.attend_rows", counted)
    model = loaded(config, plan=plan)
    documents = [read(model, prose(chars, seed=chars)) for chars in (200, 700)]
    runner = TorchRunner(model)
    engine = Engine(model, runner=runner)
    crowd = [start(engine, documents[row % 2], row, budgets) for row in range(8)]
    together = [logits_of(runner, crowd, step) for step in range(3)]
    # Of eight rows four are about each document; they share what they may share.
    assert set(shared) == ({4} if config.model_type != "mpt" else set())
    for row, one in enumerate(crowd):
        alone = start(engine, documents[row % 2], row, budgets)
        for step, wanted in enumerate(together):
            found = logits_of(runner, [alone], step)[0]
            assert_close(found, wanted[row], rtol=1e-4, atol=1e-4)
        assert alone.state.meter.read == one.state.meter.read
        assert alone.state.mass is not None
        assert one.state.mass is not None
        assert_close(alone.state.mass.on_tokens(), one.state.mass.on_tokens(), rtol=1e-3, atol=1e-5)


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


@pytest.fixture(scope="module")
def document(model: LoadedModel) -> DocumentCache:
    return read(model, prose(700))


@pytest.mark.parametrize("chunk_tokens", [1, 7, 20])
def test_a_prefill_in_parts_is_that_in_one(
    model: LoadedModel, document: DocumentCache, chunk_tokens: int
) -> None:
    how = {"budget": EXACT, "sampling": Sampling(4)}
    whole = Engine(model).start(document, QUESTIONS[0], **how)  # type: ignore[arg-type]
    config = DecodeConfig(question_chunk_tokens=chunk_tokens)
    parts = Engine(model, config).start(document, QUESTIONS[0], **how)  # type: ignore[arg-type]
    runner = TorchRunner(model)
    wanted = runner.prefill([whole.next_chunk])
    lengths = []
    while parts.num_next_chunk:
        assert len(parts.next_chunk.ids) == parts.num_next_chunk
        lengths.append(parts.num_next_chunk)
        found = runner.prefill([parts.next_chunk])
        assert len(found) == (parts.num_next_chunk == 0)  # logits come with the last part
    assert lengths == [chunk_tokens] * (20 // chunk_tokens) + [20 % chunk_tokens] * (
        20 % chunk_tokens > 0
    )
    assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    assert parts.state.mass is not None
    assert whole.state.mass is not None
    assert_close(parts.state.mass.on_tokens(), whole.state.mass.on_tokens(), rtol=1e-3, atol=1e-5)


def test_every_part_of_a_prefill_keeps_to_the_budget(
    model: LoadedModel, document: DocumentCache
) -> None:
    engine = Engine(model, DecodeConfig(question_chunk_tokens=8))
    running = engine.start(document, QUESTIONS[0], budget=0.6, sampling=Sampling(6))
    while not running.is_finished:
        engine.step([running])
    engine.finish(running)
    assert running.state.meter.num_prefills == 3
    assert running.state.meter.num_passes == 3 + 5
    budget = running.result().budget
    assert budget.loaded_prefill == pytest.approx(0.6, rel=0.05)
    assert budget.loaded_decode == pytest.approx(0.6, rel=0.05)
