"""Questions about natural paragraphs: answered by the text, and never twice in the same words."""

from random import Random

import pytest

from training.data.answers import exchange_answers, pool_of
from training.data.facts import REFUSAL
from training.data.natural import Article, Passage, disguise
from training.data.noise import blur, recast, strip_down
from training.data.passages import PassageSampler, abridge
from training.data.phrasing import StyleConfig
from training.data.spans import apposed, head_of
from training.data.synonyms import reword

QUESTION = "When did the council of Aldbrook begin to build the old mill in the valley?"


def passage_of(number: int) -> Passage:
    """A paragraph with four questions."""
    place, person = f"Town{chr(65 + number)}", f"Marlow{chr(97 + number)}"
    text = (
        f"The mill at {place} was built by old {person} in 18{10 + number} for the local farmers. "
        f"It burned twelve tons of coal a day. The owners moved to the island because of the rain."
    )
    return Passage(
        text,
        (
            (f"Who built the mill at {place}?", person),
            (f"When was the mill at {place} built?", f"18{10 + number}"),
            (f"For whom was the mill at {place}?", "local farmers"),
            (f"How many tons of coal did {place} burn a day?", "twelve"),
        ),
    )


ARTICLES = [
    Article(f"Article {first}", tuple(passage_of(first + n) for n in range(8))) for first in (0, 8)
]
POOL = pool_of((f"Who came in {n}?", f"Person{chr(65 + n)}") for n in range(24))


def test_a_reworded_question_keeps_names_and_the_form_of_its_words():
    rng = Random(1)
    found = {reword("Which Big country started the war?", rng, 1.0) for _ in range(60)}
    assert all(text.split(" ")[1] == "Big" for text in found)
    assert {text.split(" ")[2] for text in found} == {"nation", "state"}
    assert {text.split(" ")[3] for text in found} == {"began", "begun", "commenced"}
    assert reword(QUESTION, rng, 0.0) == QUESTION


def test_a_recast_question_is_asked_otherwise_about_the_same():
    rng = Random(2)
    found = {recast(QUESTION, rng) for _ in range(60)}
    assert len(found) > 4
    assert all("Aldbrook" in text and "mill" in text for text in found)
    assert any(text.startswith("In the valley, ") for text in found)


def test_what_is_left_of_a_question_are_the_words_that_count():
    words = {word for n in range(40) for word in strip_down(QUESTION, Random(n)).split(" ")}
    assert words == {"When", "council", "Aldbrook", "begin", "build", "old", "mill", "valley"}


def test_another_answer_stands_in_the_place_of_the_first_and_only_there():
    pairs = (("Who left?", "Ann"), ("What did Ann see?", "Annual fair"))
    text, asked = exchange_answers("Ann saw the Annual fair.", pairs, POOL, Random(3), 1.0)
    name = asked[0][1]
    assert name.startswith("Person")
    assert text == f"{name} saw the Annual fair."
    assert asked[1] == (f"What did {name} see?", "Annual fair")


def test_an_answer_without_others_of_its_sort_stays():
    pairs = (("Why did it burn?", "of the rain"),)
    assert exchange_answers("It burned of the rain.", pairs, POOL, Random(4), 1.0) == (
        "It burned of the rain.",
        pairs,
    )


@pytest.mark.parametrize("make", ["paragraphs", "whole"])
def test_answers_of_articles_stand_in_their_text(make):
    sampler, num_asked = PassageSampler(ARTICLES, StyleConfig(), (), POOL), 0
    for seed in range(20):
        needle = getattr(sampler, make)(4000, Random(seed))
        text = "\n".join(chunk.text for chunk in needle.chunks)
        num_asked += len(needle.questions)
        for question in needle.questions:
            assert question.answer in text or question.answer == REFUSAL
    assert num_asked >= 20


def test_a_whole_article_is_asked_about_from_its_first_to_its_last_paragraph():
    needle = PassageSampler(ARTICLES, StyleConfig(), (), POOL).whole(9000, Random(5))
    (chunk,) = needle.chunks
    paragraphs = chunk.text.split("\n")
    assert len(paragraphs) >= 8
    asked = {
        place
        for place, text in enumerate(paragraphs)
        for question in needle.questions
        if question.kind == "natural" and question.answer in text
    }
    assert asked == set(range(len(paragraphs)))


def test_an_abridged_paragraph_lacks_only_sentences_without_answers():
    passage = Passage("It began. It rained. Ann left in May. It ended.", (("Who left?", "Ann"),))
    found = {abridge(passage, Random(seed)).text for seed in range(60)}
    assert "Ann left in May. It ended." in found
    assert passage.text in found
    assert all(text.endswith("Ann left in May. It ended.") for text in found)


def test_a_disguised_passage_still_holds_its_answers():
    passage = Passage(
        "In 1984 Marlow paid 12 men. Marlow left in 1985.",
        (("Who paid 12 men?", "Marlow"), ("When did Marlow leave?", "1985")),
    )
    told = disguise(passage, Random(1))
    assert told.text != passage.text
    assert "Marlow" not in told.text
    assert all(answer in told.text for _, answer in told.questions)


def test_blurred_questions_differ_and_keep_their_first_word():
    rng, text = Random(11), "When did the owners of the old mill move all of their machines?"
    blurred = {blur(text, rng) for _ in range(40)}
    assert len(blurred) > 20
    assert {one.split(" ")[0] for one in blurred} == {"When"}


def test_an_apposition_is_asked_for_from_both_sides():
    sentence = "In May, Hester Vane, the last miller of Aldbrook, sold the house."
    found = {apposed(sentence, Random(seed)) for seed in range(40)}
    assert ("Who was the last miller of Aldbrook?", "Hester Vane") in found
    assert ("Who was Hester Vane?", "the last miller of Aldbrook") in found
    assert apposed("Nobody sold the house.", Random(1)) is None


@pytest.mark.parametrize(
    ("span", "head"),
    [("the old harbour", "harbour"), ("the harbour", ""), ("Sarn River", "river"),
     ("Hester Vane", ""), ("donkeys", "")],
)  # fmt: skip
def test_the_head_of_a_span_does_not_give_the_span_away(span, head):
    assert head_of(span) == head
