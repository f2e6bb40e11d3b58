"""Questions for what is not said: about things that are spoken of, and never answered."""

from random import Random

from training.data.distractors import names_of
from training.data.facts import REFUSAL, Chunk, Needle, Question, claim
from training.data.needles import draw_needle
from training.data.phrasing import StyleConfig
from training.data.unanswerable import ask_unanswerable

PUMP = Needle(
    (Chunk("The amber pump has 311 hammers. Mara Stenholt repaired the amber pump."),),
    tuple(
        Question(text, answer, "single")
        for text, answer in (
            ("How many hammers does the amber pump have?", "311"),
            ("Who repaired the amber pump?", "Mara Stenholt"),
        )
    )
    * 30,
    claim("the amber pump"),
)
GATE = Needle(
    (Chunk("The iron gate opens at 7:40."),),
    (Question("When does the iron gate open?", "7:40", "scene"),) * 40,
    claim("the iron gate"),
)
NEEDLES = (PUMP, GATE)


def ask(seed):
    return ask_unanswerable(
        NEEDLES, [names_of(needle) for needle in NEEDLES], Random(seed), StyleConfig()
    )


def test_a_tenth_as_many_are_asked_at_most_and_all_are_refused():
    for seed in range(10):
        questions = ask(seed)
        assert 5 <= len(questions) <= 10
        assert {(one.answer, one.kind) for one in questions} == {(REFUSAL, "unanswerable")}


def test_each_names_what_the_document_speaks_of_and_asks_for_nothing_that_it_tells():
    texts = [one.text.lower() for seed in range(60) for one in ask(seed)]
    assert all("amber pump" in text or "iron gate" in text for text in texts)
    assert not any("hammers" in text and "amber pump" in text for text in texts)
    assert any("hammers" in text and "iron gate" in text for text in texts)


def test_what_one_thing_is_asked_is_asked_of_another_unless_it_has_an_answer_of_that_sort():
    texts = {one.text for seed in range(60) for one in ask(seed)}
    assert "When does the amber pump open?" in texts
    assert "Who repaired the iron gate?" in texts


def test_no_question_of_a_document_is_refused_that_it_answers():
    for seed in range(25):
        rng = Random(seed)
        needles = [draw_needle(rng, StyleConfig(), 600) for _ in range(25)]
        answered = {one.text for needle in needles for one in needle.questions}
        asked = ask_unanswerable(
            needles, [names_of(needle) for needle in needles], rng, StyleConfig()
        )
        assert not answered & {one.text for one in asked if one.answer == REFUSAL}


def test_without_names_nothing_is_asked():
    assert ask_unanswerable([GATE], [[]], Random(1), StyleConfig()) == []
    assert ask_unanswerable([], [], Random(1), StyleConfig()) == []
