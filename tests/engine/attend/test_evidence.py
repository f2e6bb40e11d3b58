"""Evidence: where the model attended, as passages of the text."""

import pytest
import torch

from engine.attend.attention_profile import profile_attention
from engine.attend.evidence import ATTENTION_WEIGHT, AttentionMass, Evidence, find_evidence
from engine.attend.question import open_question
from engine.decode.answer import Answer
from engine.decode.sampling import Sampling
from engine.document.budget import EXACT
from engine.document.cache import DocumentCache
from engine.model.attention import forward
from engine.model.head_plan import HeadPlan
from engine.model.loader import LoadedModel
from precompute.build import precompute_document
from tests.models import FAMILIES, HALF, SETTINGS, answer, loaded, prose, read

SENTENCES = [f"Sentence number {index} speaks of €{index}00. " for index in range(12)]
LEFT, RIGHT = "".join(SENTENCES[:6]), "".join(SENTENCES[6:])


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


@pytest.fixture(scope="module")
def document(model: LoadedModel) -> DocumentCache:
    """Two pages of six sentences."""
    pages = [(1, 0, len(LEFT)), (2, len(LEFT), len(LEFT + RIGHT))]
    return precompute_document(model, LEFT + RIGHT, pages, SETTINGS, lambda *_: None)


def token_at(document: DocumentCache, needle: str) -> int:
    """The first token of the needle's first character."""
    at = document.text.index(needle)
    return int((document.offsets[:, 0] == at).nonzero()[0, 0])


@pytest.mark.parametrize(("number", "page"), [(0, 1), (5, 1), (6, 2), (11, 2)])
def test_mass_on_a_token_points_to_its_sentence(
    document: DocumentCache, number: int, page: int
) -> None:
    mass = torch.zeros(document.num_tokens)
    mass[token_at(document, f"€{number}00")] = 4.0
    sentence = SENTENCES[number].strip()
    start = document.text.index(sentence)
    wanted = Evidence(sentence, page, start, start + len(sentence), 1.0, None, 1, 0.0)
    assert find_evidence(document, mass) == (wanted,)


def test_the_heaviest_sentences_come_first_and_few(document: DocumentCache) -> None:
    mass = torch.zeros(document.num_tokens)
    for weight, number in enumerate((3, 8, 1, 10), start=1):
        mass[token_at(document, f"€{number}00")] = float(weight)
    found = find_evidence(document, mass, limit=3)
    assert [SENTENCES.index(one.quote + " ") for one in found] == [10, 1, 8]
    assert [one.weight for one in found] == [0.4, 0.3, 0.2]


def test_the_templates_tokens_are_no_place(document: DocumentCache) -> None:
    mass = torch.zeros(document.num_tokens)
    assert find_evidence(document, mass) == ()
    mass[0] = 1.0
    assert find_evidence(document, mass) == ()


def test_attention_is_told_by_where_in_the_text_it_lay(document: DocumentCache) -> None:
    mass = torch.zeros(document.num_tokens)
    assert profile_attention(document, mass) == ()
    begin, end = (document.text.index(f"€{number}00") for number in (2, 9))
    mass[token_at(document, "€200")], mass[token_at(document, "€900")] = 1.0, 3.0
    mass[0] = 5.0  # the template's
    shares = profile_attention(document, mass)
    places = [index / len(shares) * len(document.text) for index, one in enumerate(shares) if one]
    assert places == pytest.approx([begin, end], abs=len(document.text) / len(shares))
    assert [one for one in shares if one] == [0.25, 0.75]


def test_a_long_passage_is_quoted_in_part(model: LoadedModel) -> None:
    text = "word " * 300
    document = precompute_document(model, text, [(1, 0, len(text))], SETTINGS, lambda *_: None)
    found = find_evidence(document, torch.ones(document.num_tokens))
    assert len(found) == 1
    assert found[0].quote.endswith("…")
    assert text.startswith(found[0].quote[:-1])
    assert 100 < len(found[0].quote) < len(text)


@pytest.mark.parametrize("budget", [0.4, EXACT])
@pytest.mark.parametrize("question", ["What is it about?", "Who speaks of 700?"])
def test_evidence_of_an_answer_lies_in_the_text(
    model: LoadedModel, document: DocumentCache, question: str, budget: float
) -> None:
    *_, found = answer(model, document, question, budget=budget, sampling=Sampling(6))
    assert isinstance(found, Answer)
    assert found.evidence
    scores = [one.lexical + ATTENTION_WEIGHT * one.weight**0.5 for one in found.evidence]
    assert scores == pytest.approx(sorted(scores, reverse=True), abs=1e-3)
    assert 0 < sum(one.weight for one in found.evidence) <= 1.001
    for one in found.evidence:
        assert document.text[one.start_char : one.end_char].strip() == one.quote
        page = document.pages[one.page - 1]
        assert page.number == one.page
        assert page.start <= one.start_char < one.end_char <= page.end


def mass_of(model: LoadedModel, document: DocumentCache, budget: float) -> torch.Tensor:
    mass = AttentionMass(document, model.device)
    state = open_question(document, budget, mass)
    forward(model.model, model.prompt.encode_question("Which number?"), state.position, state)
    return mass.on_tokens()


def test_sinks_carry_no_mass_and_every_other_token_some(
    model: LoadedModel, document: DocumentCache
) -> None:
    mass = mass_of(model, document, EXACT)
    assert (mass[: document.num_sinks] == 0).all()
    assert (mass[document.num_sinks :] > 0).all()


def test_tokens_that_were_not_attended_to_carry_no_mass(
    model: LoadedModel, document: DocumentCache
) -> None:
    everything, some = mass_of(model, document, EXACT), mass_of(model, document, 0.4)
    left_out = (some == 0) & (everything > 0)
    assert 0 < int(left_out.sum()) < document.num_tokens


def test_windows_are_left_out() -> None:
    model = loaded(FAMILIES["mistral-window"])
    text = prose(300)
    document = precompute_document(model, text, [(1, 0, 300)], SETTINGS, lambda *_: None)
    *_, found = answer(model, document, "Who?", budget=EXACT, sampling=Sampling(2))
    assert isinstance(found, Answer)
    assert found.evidence == ()


def test_streaming_heads_give_no_evidence() -> None:
    plan = HeadPlan("file", ((False, False), (False, False)), num_sinks=4, window=24)
    model = loaded(FAMILIES["llama"], plan=plan)
    document = read(model, prose(300))
    *_, found = answer(model, document, "Who?", budget=EXACT, sampling=Sampling(2))
    assert isinstance(found, Answer)
    assert found.evidence == ()


def test_retrieval_heads_beside_streaming_heads_do(document: DocumentCache) -> None:
    model = loaded(FAMILIES["llama"], plan=HALF)
    mass = mass_of(model, read(model, document.text), EXACT)
    assert (mass[document.num_sinks :] > 0).all()


def test_words_of_the_question_count_beside_attention(document: DocumentCache) -> None:
    mass = torch.zeros(document.num_tokens)
    mass[token_at(document, "€300")] = 4.0
    found = find_evidence(document, mass, question="What does number 7 speak of, €700?")
    assert [SENTENCES.index(one.quote + " ") for one in found[:2]] == [7, 3]
    assert (found[0].lexical, found[0].weight) == (1.0, 0.0)
    assert found[1].weight == 1.0
    assert found[1].lexical < 1.0


def test_words_that_many_passages_have_show_none_alone(document: DocumentCache) -> None:
    nothing = torch.zeros(document.num_tokens)
    assert find_evidence(document, nothing, question="Zebras?") == ()
    assert find_evidence(document, nothing, question="€700?")[0].lexical == 1.0


def test_what_an_answer_quotes_is_among_the_evidence(document: DocumentCache) -> None:
    mass = torch.zeros(document.num_tokens)
    for number in (1, 3, 8):
        mass[token_at(document, f"€{number}00")] = 4.0
    place = document.text.index("€500")
    found = find_evidence(document, mass, quoted=[(place, place + 4)])
    assert len(found) == 3
    assert SENTENCES[5].strip() in [one.quote for one in found]
