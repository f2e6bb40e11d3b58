"""Answers: decoding, limits, budgets and what is reported about them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from common.errors import CallerGone, EmptyQuestion, QuestionTooLong
from engine.decode import running_answer
from engine.decode.answer import Answer, TextDelta
from engine.decode.sampling import Sampling
from engine.document.budget import EXACT
from engine.document.cache import DocumentCache
from engine.model.loader import LoadedModel
from precompute.score_histogram import FLOOR_TOKENS
from tests.models import FAMILIES, HALF, SETTINGS, answer, loaded, prose, read, sizes

TEXT = prose(1000)
QUESTION = "Who sold the maps?"
SMALL_CONTEXT = 128


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


@pytest.fixture(scope="module")
def document(model: LoadedModel) -> DocumentCache:
    return read(model, TEXT)


@dataclass(frozen=True)
class Asked:
    """All that a question brought."""

    pieces: tuple[str, ...]
    answer: Answer


def collect(items: Iterator[TextDelta | Answer]) -> Asked:
    *pieces, last = items
    assert all(isinstance(piece, TextDelta) for piece in pieces)
    assert isinstance(last, Answer)
    return Asked(tuple(piece.text for piece in pieces if isinstance(piece, TextDelta)), last)


Ask = Callable[..., Asked]


@pytest.fixture
def ask(model: LoadedModel, document: DocumentCache) -> Ask:
    def asked(question: str = QUESTION, budget: float = EXACT, **sampling: object) -> Asked:
        how = Sampling(**{"max_tokens": 12, **sampling})  # type: ignore[arg-type]
        return collect(answer(model, document, question, budget=budget, sampling=how))

    return asked


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, model: LoadedModel) -> Callable[..., None]:
    """Make the model answer with given words, then, if told to, with its end token."""

    def script(text: str, *, end: bool = True) -> None:
        tokens = [*model.tokenizer(text)["input_ids"], *[3] * end]

        class Scripted:
            def __init__(self, *_: object) -> None:
                self._left = list(tokens)

            takes_best = takes_best_allowed = False

            def draw(self, question: list[int], answer: list[int], logits: Tensor) -> Tensor:
                return torch.tensor(self._left.pop(0) if self._left else 0)

        monkeypatch.setattr(running_answer, "Sampler", Scripted)

    return script


def test_greedy_answers_are_always_the_same(ask: Ask) -> None:
    first, second = ask(), ask()
    assert first.answer.text == second.answer.text != ""
    assert first.pieces == second.pieces
    assert ask(seed=1).answer.text == ask(seed=2).answer.text == first.answer.text


def test_a_seed_makes_sampled_answers_repeatable(ask: Ask) -> None:
    texts = [ask(temperature=1.5, seed=seed).answer.text for seed in (1, 1, 2, 3)]
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3


def test_without_a_seed_answers_differ(ask: Ask) -> None:
    assert len({ask(temperature=3.0, max_tokens=24).answer.text for _ in range(4)}) > 1


def test_the_smallest_nucleus_is_greedy(ask: Ask) -> None:
    assert ask(temperature=1.0, top_p=1e-6, seed=5).answer.text == ask().answer.text


def test_max_tokens_cut_an_answer(ask: Ask) -> None:
    short, long = ask(max_tokens=4).answer, ask(max_tokens=9).answer
    assert (short.finish_reason, short.usage.completion_tokens) == ("length", 4)
    assert (long.finish_reason, long.usage.completion_tokens) == ("length", 9)


def test_an_end_token_stops_an_answer(ask: Ask, say: Callable[..., None]) -> None:
    say("Mira.")
    found = ask().answer
    assert (found.text, found.finish_reason, found.usage.completion_tokens) == ("Mira.", "stop", 5)


def test_any_of_the_models_end_tokens_stops_it(
    model: LoadedModel, document: DocumentCache, ask: Ask
) -> None:
    tokens = model.prompt.encode_answer(ask(max_tokens=3).answer.text).tolist()
    ends = replace(model, generation=replace(model.generation, eos_ids=(3, tokens[0])))
    found = collect(answer(ends, document, QUESTION, budget=EXACT, sampling=Sampling())).answer
    assert (found.text, found.finish_reason, found.usage.completion_tokens) == ("", "stop", 0)


def test_pieces_make_up_the_text_and_never_split_a_character(
    ask: Ask, say: Callable[..., None]
) -> None:
    text = "naïve 😀 日本語."
    say(text)
    found = ask(max_tokens=64)
    assert "".join(found.pieces) == found.answer.text == text
    assert all("\ufffd" not in piece for piece in found.pieces)
    assert len(found.pieces) == len(text)  # of a tokenizer of bytes


def test_half_a_character_at_the_end_is_shown_as_such(ask: Ask, say: Callable[..., None]) -> None:
    say("ab😀", end=False)
    found = ask(max_tokens=4)
    assert found.answer.finish_reason == "length"
    assert found.answer.text == "".join(found.pieces) == "ab\ufffd"


def test_pieces_of_a_random_model_make_up_its_text(ask: Ask) -> None:
    found = ask(temperature=2.0, seed=3, max_tokens=40)
    assert "".join(found.pieces) == found.answer.text


@pytest.mark.parametrize("question", ["", "   ", "\n\t"])
def test_an_empty_question_is_refused(ask: Ask, question: str) -> None:
    with pytest.raises(EmptyQuestion) as caught:
        ask(question)
    assert caught.value.param == "question"


def test_white_space_around_a_question_is_dropped(ask: Ask) -> None:
    assert ask(f"\n  {QUESTION} ").answer.text == ask().answer.text


@pytest.fixture(scope="module")
def narrow() -> tuple[LoadedModel, DocumentCache]:
    """A document that leaves 78 of its model's 128 tokens."""
    config = type(FAMILIES["llama"])(**sizes(max_position_embeddings=SMALL_CONTEXT))
    model = loaded(config)
    return model, read(model, TEXT[:49])


def test_a_question_too_long_for_the_context_is_refused(
    narrow: tuple[LoadedModel, DocumentCache],
) -> None:
    model, document = narrow
    longest = SMALL_CONTEXT - document.num_tokens - 1 - 2  # an answer's token, the template's
    with pytest.raises(QuestionTooLong, match=f"has {longest + 3} tokens") as caught:
        list(answer(model, document, "x" * (longest + 1), budget=EXACT, sampling=Sampling()))
    assert f"only {longest + 2} fit" in caught.value.message
    found = collect(
        answer(model, document, "x" * longest, budget=EXACT, sampling=Sampling())
    ).answer
    assert found.usage.completion_tokens == 1


def test_an_answer_ends_where_the_context_does(
    narrow: tuple[LoadedModel, DocumentCache],
) -> None:
    model, document = narrow
    sampling = Sampling(max_tokens=1000)
    found = collect(answer(model, document, QUESTION, budget=EXACT, sampling=sampling)).answer
    used = found.usage
    assert found.finish_reason == "length"
    total = used.document_tokens + used.question_tokens + used.completion_tokens
    assert total == SMALL_CONTEXT


@pytest.mark.parametrize("passes", [0, 1, 3])
def test_a_cancelled_question_stops_before_its_next_pass(
    model: LoadedModel, document: DocumentCache, passes: int
) -> None:
    asked = []

    def cancelled() -> bool:
        asked.append(None)
        return len(asked) > passes

    pieces: list[object] = []
    items = answer(
        model, document, QUESTION, budget=EXACT, sampling=Sampling(), cancelled=cancelled
    )
    with pytest.raises(CallerGone):
        pieces.extend(items)
    assert len(asked) == passes + 1


def test_nothing_is_computed_for_nobody(
    model: LoadedModel, document: DocumentCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that is not asked for its pieces does no work: callers hold a lazy iterator."""
    monkeypatch.setattr("engine.decode.packed_pass.forward", None)
    answer(model, document, QUESTION, budget=EXACT, sampling=Sampling())


def test_exact_reads_everything_in_every_pass(ask: Ask, document: DocumentCache) -> None:
    found = ask(max_tokens=6).answer
    assert found.usage.kv_bytes_resident == 2 * 2 * 2 * 1001 * 16 * 4  # layers, kv heads, k and v
    assert found.usage.kv_bytes_read == 6 * found.usage.kv_bytes_resident
    assert found.budget.loaded == found.budget.loaded_prefill == found.budget.loaded_decode == 1.0
    assert found.usage.document_tokens == document.num_tokens == 1001
    assert found.usage.question_tokens == len(QUESTION) + 2


@pytest.mark.parametrize("requested", [0.45, 0.6])
def test_a_budget_reads_less_than_everything(ask: Ask, requested: float) -> None:
    found = ask(budget=requested).answer
    budget, used = found.budget, found.usage
    assert (budget.requested, budget.applied, budget.raised) == (requested, requested, False)
    assert budget.loaded == pytest.approx(
        used.kv_bytes_read / (12 * used.kv_bytes_resident), abs=1e-4
    )
    assert document_floor(ask) < budget.loaded < 0.9
    by_phase = (budget.loaded_prefill + 11 * budget.loaded_decode) / 12
    assert by_phase == pytest.approx(budget.loaded, abs=2e-4)


def document_floor(ask: Ask) -> float:
    return ask(budget=1e-6, max_tokens=1).answer.budget.applied


def test_a_larger_budget_reads_more(ask: Ask) -> None:
    read_shares = [ask(budget=budget).answer.budget.loaded for budget in (0.4, 0.5, 0.7, 1.0)]
    assert read_shares == sorted(set(read_shares))


def test_a_budget_below_the_floor_is_raised_and_says_so(ask: Ask, document: DocumentCache) -> None:
    floor = document.curves.floor
    always = SETTINGS.num_sinks + SETTINGS.num_tail + FLOOR_TOKENS
    assert always / 1001 < floor < always / 1001 + 0.1
    found = ask(budget=floor / 2).answer.budget
    assert (found.requested, found.applied, found.raised) == (floor / 2, floor, True)
    assert found.loaded < 2 * floor


def test_a_short_document_is_read_whole(model: LoadedModel) -> None:
    """All its tokens are sinks and tail."""
    document = read(model, "Seven.")
    found = collect(answer(model, document, QUESTION, budget=0.05, sampling=Sampling(4))).answer
    assert (found.budget.applied, found.budget.raised) == (1.0, True)
    assert found.budget.loaded == 1.0


def test_window_layers_are_read_as_far_as_they_are_kept() -> None:
    model = loaded(FAMILIES["gemma2"])
    document = read(model, TEXT)
    assert document.kv_bytes == 2 * 2 * (96 + 1001) * 16 * 4
    found = collect(answer(model, document, QUESTION, budget=EXACT, sampling=Sampling(3))).answer
    assert found.usage.kv_bytes_read == 3 * document.kv_bytes


def test_exact_means_all_that_a_plan_keeps_and_says_how_much_that_is() -> None:
    model = loaded(FAMILIES["llama"], plan=HALF)
    document = read(model, TEXT)
    found = collect(answer(model, document, QUESTION, budget=EXACT, sampling=Sampling(6))).answer
    budget, used = found.budget, found.usage
    assert (budget.requested, budget.applied, budget.raised) == (1.0, 1.0, False)
    kept = (1001 + 4 + 24 + 1) / 2  # tokens a head, half of them streaming
    assert budget.loaded == budget.loaded_prefill == pytest.approx(kept / 1001, abs=1e-4)
    assert used.kv_bytes_read == 6 * used.kv_bytes_resident


def test_timings_name_every_stage_in_order(ask: Ask) -> None:
    found = ask().answer.timings_ms
    assert list(found) == ["question_prefill", "first_token", "decode", "total"]
    assert 0 < found["question_prefill"] <= found["first_token"] < found["total"]
    assert found["first_token"] + found["decode"] <= found["total"] + 1e-3


def test_a_repetition_penalty_of_the_model_is_kept(
    model: LoadedModel, document: DocumentCache, ask: Ask
) -> None:
    penalised = replace(model, generation=replace(model.generation, repetition_penalty=50.0))
    found = collect(answer(penalised, document, QUESTION, budget=EXACT, sampling=Sampling(12)))
    assert found.answer.text != ask(max_tokens=12).answer.text


def test_a_stop_string_ends_an_answer_and_is_no_part_of_it(
    ask: Ask, say: Callable[..., None]
) -> None:
    say("Mira sold maps.\nQuestion: and")
    found = ask(max_tokens=64, stop=("\nQ", "lamps"))
    assert found.answer.text == "".join(found.pieces) == "Mira sold maps."
    assert (found.answer.finish_reason, found.answer.usage.completion_tokens) == ("stop", 17)


def test_a_beginning_of_a_stop_string_is_shown_at_the_end(
    ask: Ask, say: Callable[..., None]
) -> None:
    say("Mira.\n")
    found = ask(max_tokens=64, stop=("\nQ",))
    assert found.answer.text == "".join(found.pieces) == "Mira.\n"


def test_an_end_token_can_be_ignored(ask: Ask, say: Callable[..., None]) -> None:
    say("Mira.")
    found = ask(max_tokens=9, ignore_eos=True).answer
    assert (found.finish_reason, found.usage.completion_tokens) == ("length", 9)
