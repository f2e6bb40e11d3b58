"""Timetables in prose: every part can be asked for, and is answered by what is told of it."""

import re
from random import Random

import pytest

from training.data.plants import REFUSAL
from training.data.speech import Voice
from training.data.timetables import plant_timetable, sorts
from training.data.values import VALUE_KINDS

VOICE = Voice(refusals=0.5)
PLANTS = [plant_timetable(Random(seed), VOICE) for seed in range(300)]
CLOCK = re.compile(r"\d[:.]\d\d|o'clock|half past|quarter to|[ap]m\b")
HOUR = re.compile(r"\b(?:what time|which hour|what hour)\b", re.IGNORECASE)
LENGTH = re.compile(r"\b(?:how long|how often|what intervals)\b", re.IGNORECASE)


def answered():
    return [one for plant in PLANTS for one in plant.questions if one.answer != REFUSAL]


def test_every_sort_has_names_and_parts_that_can_be_told_and_asked_for():
    for sort in sorts():
        assert len(sort.names) > 1
        assert [part.kind for part in sort.parts].count("time") == 2
        for part in sort.parts:
            assert part.kind in VALUE_KINDS
            assert any("{u}" not in text for text in part.questions)
            assert all("{V}" in clause and "|" in clause for clause in part.clauses)
            assert all("{S}" in text for text in part.questions)


def test_every_answer_stands_in_the_text_and_every_sentence_ends():
    for plant in PLANTS:
        text = " ".join(chunk.text for chunk in plant.chunks)
        assert "{" not in text
        assert "|" not in text
        assert text.endswith(".")
        for question in plant.questions:
            assert "{" not in question.text
            assert question.answer in text or question.answer == REFUSAL


def test_what_is_asked_by_the_clock_is_no_length_of_time_and_the_other_way_round():
    for question in answered():
        if HOUR.search(question.text):
            assert CLOCK.search(question.answer)
        if LENGTH.search(question.text):
            assert not CLOCK.search(question.answer)


def test_beside_a_time_of_day_stands_something_else():
    for plant in PLANTS:
        kinds = {bool(CLOCK.search(one.answer)) for one in plant.questions}
        assert True in kinds
    assert sum(not CLOCK.search(one.answer) for one in answered()) > 0.3 * len(answered())


def test_no_question_has_two_answers():
    for plant in PLANTS:
        found: dict[str, str] = {}
        for question in plant.questions:
            assert found.setdefault(question.text, question.answer) == question.answer


@pytest.mark.parametrize("refusals", [0.0, 1.0])
def test_refusals_come_as_often_as_the_voice_has_them(refusals):
    plants = [plant_timetable(Random(seed), Voice(refusals=refusals)) for seed in range(60)]
    refused = sum(one.answer == REFUSAL for plant in plants for one in plant.questions)
    assert (refused > 60) == bool(refusals)
