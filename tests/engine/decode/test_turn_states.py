"""Kept turns: which are found, how long they stay, and that no answer depends on them."""

from collections.abc import Iterator, Sequence

import pytest
import torch

from engine.config import DecodeConfig
from engine.decode.answer import Answer, TextDelta
from engine.decode.sampling import Sampling
from engine.decode.turn_states import DocumentKey, TurnsKey, TurnStates
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.empty_document import empty_document
from engine.model.loader import LoadedModel
from engine.model.prompt import Turn
from tests.models import FAMILIES, loaded, prose, read

KEY = TurnsKey(DocumentKey("a document", "a reading"), 0.15)
DOCUMENT = KEY.document
CPU = torch.device("cpu")
TURNS = ((1, 2, 3), (4, 5), (6,))
LAYERS, HEADS, DIM = 2, 2, 4
TURN_BYTES = LAYERS * 2 * HEADS * DIM * 4  # of a turn of one token
SAMPLING = Sampling(max_tokens=24, ignore_eos=True)
QUESTIONS = ("Who sold the maps?", "  And when? ", "Where are the lamps kept?", "Why?")


def state(turns: Sequence[Sequence[int]] = TURNS) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Keys and values that tell each token's layer and id."""
    ids = torch.tensor([token for turn in turns for token in turn], dtype=torch.float32)
    shape = (HEADS, len(ids), DIM)
    return [
        (
            (10 * layer + ids)[None, :, None].expand(shape),
            -(10 * layer + ids)[None, :, None].expand(shape),
        )
        for layer in range(LAYERS)
    ]


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_the_longest_beginning_is_found() -> None:
    states = TurnStates(10**6, 60)
    states.add(KEY, TURNS[:2], state())
    for asked, num_turns in ((TURNS, 2), (TURNS[:1], 1), (((1, 2, 3), (4,)), 1)):
        found = states.find(KEY, asked, CPU)
        assert found is not None
        assert found.num_turns == num_turns
        for (keys, values), mine, of_mine in zip(
            state(asked[:num_turns]), found.keys, found.values, strict=True
        ):
            assert torch.equal(keys, mine)
            assert torch.equal(values, of_mine)
    for asked in (((1, 2), (3, 4, 5)), ((4, 5),), ()):
        assert states.find(KEY, asked, CPU) is None, "the same tokens are not the same turns"


def test_another_document_reading_or_budget_finds_nothing() -> None:
    states = TurnStates(10**6, 60)
    states.add(KEY, TURNS, state())
    for document, budget in (
        (DocumentKey("another", "a reading"), 0.15),
        (DocumentKey("a document", "another"), 0.15),
        (DOCUMENT, 0.2),
    ):
        assert states.find(TurnsKey(document, budget), TURNS, CPU) is None


def test_a_text_is_tokenized_once_for_its_owner_until_that_is_dropped() -> None:
    clock = Clock()
    states, asked = TurnStates(10**6, 60, clock), []

    def tokenize(text: str) -> tuple[int, ...]:
        asked.append(text)
        return (len(text),)

    for _ in range(2):
        assert states.ids("one", "How high?", tokenize) == (9,)
        assert "one" in states.owners(), "so that whoever looks for deleted documents finds it"
        assert states.ids("another", "How high?", tokenize) == (9,)
    assert len(asked) == 2, "another owner's question is not quicker for it"
    states.drop("one")
    states.ids("another", "How high?", tokenize)
    assert len(asked) == 2
    states.ids("one", "How high?", tokenize)
    assert len(asked) == 3
    clock.now_s = 60.0
    states.owners()
    clock.now_s = 1.0
    states.ids("one", "How high?", tokenize)
    assert len(asked) == 4, "its time was over"
    nothing = TurnStates(0, 60)
    for _ in range(2):
        nothing.ids("one", "How high?", tokenize)
    assert len(asked) == 6


def test_texts_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.decode.turn_states.MOST_TEXT_CHARS", 5)
    states, asked = TurnStates(10**6, 60), []

    def tokenize(text: str) -> tuple[int, ...]:
        asked.append(text)
        return ()

    for text in ("ab", "cd", "ab", "ef", "ab", "cd"):
        states.ids("one", text, tokenize)
    assert asked == ["ab", "cd", "ef", "cd"], "the least recently used one leaves first"


def test_turns_leave_when_their_time_is_over_or_their_document_is_deleted() -> None:
    clock = Clock()
    states = TurnStates(10**6, 60, clock)
    states.add(KEY, TURNS, state())
    clock.now_s = 59
    assert states.find(KEY, TURNS[:2], CPU) is not None, "and are kept from then on"
    clock.now_s = 61
    found = states.find(KEY, TURNS, CPU)
    assert found is not None
    assert found.num_turns == 2, "the last one was not used"
    assert states.owners() == {"a document"}
    states.drop("a document")
    assert (states.find(KEY, TURNS, CPU), states.num_bytes) == (None, 0)
    states.add(KEY, TURNS, state())
    clock.now_s = 122
    assert states.owners() == frozenset()
    assert states.num_bytes == 0


def test_bytes_have_a_limit_and_the_end_of_a_conversation_leaves_first() -> None:
    states = TurnStates(5 * TURN_BYTES, 60)
    states.add(KEY, TURNS, state())  # six tokens
    found = states.find(KEY, TURNS, CPU)
    assert found is not None
    assert found.num_turns == 2
    assert states.num_bytes == 5 * TURN_BYTES
    states.add(KEY, ((7,),), state(((7,),)))
    assert states.num_bytes <= 5 * TURN_BYTES
    assert states.find(KEY, ((7,),), CPU) is not None
    nothing = TurnStates(0, 60)
    nothing.add(KEY, TURNS, state())
    assert nothing.find(KEY, TURNS, CPU) is None


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


@pytest.fixture(scope="module")
def document(model: LoadedModel) -> DocumentCache:
    return read(model, prose(1200))


def say(
    engine: Engine, document: DocumentCache, question: str, turns: Sequence[Turn], budget: float
) -> Answer:
    items: Iterator[TextDelta | Answer] = engine.answer(
        document, question, budget=budget, sampling=SAMPLING, turns=turns, document_key=DOCUMENT
    )
    *_, last = items
    assert isinstance(last, Answer)
    return last


def keep(engine: Engine, document: DocumentCache, turns: Sequence[Turn], budget: float) -> None:
    running = engine.prepare_turns(document, turns, budget=budget, document_key=DOCUMENT)
    engine.add(running)
    while not running.is_finished:
        engine.step([running])
    engine.finish(running)
    running.keep_turns(num_turns=len(turns))


@pytest.mark.parametrize("budget", [0.15, 1.0])
@pytest.mark.parametrize("has_document", [True, False])
def test_answers_are_the_same_whether_turns_were_kept_evicted_or_cut_into_chunks(
    model: LoadedModel, document: DocumentCache, budget: float, has_document: bool
) -> None:
    about = document if has_document else empty_document(model)
    config = DecodeConfig(question_chunk_tokens=16)
    with Engine(model, config) as keeps, Engine(model, config) as forgets:
        turns: list[Turn] = []
        for question in QUESTIONS:
            kept = say(keeps, about, question, turns, budget)
            anew = say(forgets, about, question, turns, budget)
            assert kept.text == anew.text
            assert kept.evidence == anew.evidence
            assert kept.usage.question_tokens == anew.usage.question_tokens
            assert (kept.usage.kept_tokens > 0, anew.usage.kept_tokens) == (bool(turns), 0)
            if has_document and turns:
                assert kept.usage.kv_bytes_read < anew.usage.kv_bytes_read
            turns.append(Turn(question, kept.text))
            keep(keeps, about, turns, budget)
        others = [turns[0], Turn(turns[1].question, "Something else."), *turns[2:]]
        changed = say(keeps, about, "So?", others, budget)
        assert 0 < changed.usage.kept_tokens < kept.usage.kept_tokens, "the first turn's"
        assert changed.text == say(forgets, about, "So?", others, budget).text
