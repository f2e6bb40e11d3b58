"""Themes: neighbouring excerpts in one document, and questions that none of them answers."""

from itertools import pairwise
from random import Random

import pytest

from training.data.excerpts.excerpt import excerpts
from training.data.excerpts.theme import plant_theme
from training.data.speech import Voice
from training.data.wordings import REFUSAL

TRAINED = excerpts(held_out=False)


def told(plant):
    return "\n".join(chunk.text for chunk in plant.chunks).lower()


def themes(count, *, size, refusals=0.0, wordings="train"):
    voice = Voice(refusals=refusals, wordings=wordings)
    return [plant_theme(Random(seed), voice, size) for seed in range(count)]


@pytest.mark.parametrize("size", [1, 2, 9])
def test_every_answer_stands_in_what_is_told(size):
    for plant in themes(40, size=size):
        assert plant.chunks
        assert all(question.answer.lower() in told(plant) for question in plant.questions)


def test_what_is_told_stands_near_each_other_in_the_files():
    places = {one.tellings[0].lower(): place for place, one in enumerate(TRAINED)}
    for plant in themes(40, size=5):
        found = sorted(places[one] for one in plant.claims if one in places)
        gaps = [after - before for before, after in pairwise(found)]
        assert len(found) == 5
        assert sum(gap < 15 for gap in gaps) >= len(gaps) - 1  # one may be where the files end


def test_neighbours_that_are_not_told_are_asked_for_and_refused():
    plants = themes(60, size=8, refusals=1.0)
    refused = sum(q.answer == REFUSAL for plant in plants for q in plant.questions)
    unsaid_alone = sum(
        q.answer == REFUSAL for plant in themes(60, size=1, refusals=1.0) for q in plant.questions
    )
    assert unsaid_alone > 0
    assert refused > 9.5 * unsaid_alone  # eight times would be their own


def test_without_refusals_nothing_is_asked_that_is_not_told():
    answers = {q.answer for plant in themes(40, size=8) for q in plant.questions}
    assert REFUSAL not in answers


def test_some_are_told_in_one_place_and_some_are_scattered():
    plants = themes(60, size=6)
    sections = [plant for plant in plants if len(plant.chunks) == 1]
    assert 15 < len(sections) < 45
    assert all(plant.chunks[0].is_block for plant in sections)


def test_held_out_excerpts_have_themes_of_their_own():
    trained = {one.tellings[0].lower() for one in TRAINED}
    for plant in themes(20, size=4, wordings="held_out"):
        assert not plant.claims & trained
