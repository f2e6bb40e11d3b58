"""Facts, questions and answers: founded in the text, on the right side of the split."""

from random import Random

import pytest

from reader.data import plants
from reader.data.entities import draw_entity
from reader.data.plants import REFUSAL, plant_any
from reader.data.scenes import scenes
from reader.data.speech import Voice
from reader.data.split import is_held_out, patterns_for
from reader.data.template import expand, slots_of
from reader.data.values import VALUE_KINDS, draw
from reader.data.wordings import QUESTIONS, STATEMENTS

# answers put together from several places
_JOINED = {"list", "two keys", "three keys", "four keys", "sentence"}


@pytest.mark.parametrize("seed", range(40))
def test_every_answer_stands_in_the_planted_text(seed):
    plant = plant_any(Random(seed), Voice(), 2000)
    text = "\n".join(chunk.text for chunk in plant.chunks).lower()
    for question in plant.questions:
        if question.answer == REFUSAL:
            assert question.kind == "unanswerable"
        elif question.kind not in _JOINED:
            assert question.answer.lower() in text


def test_plants_are_various():
    rng = Random(1)
    kinds = {one.kind for _ in range(400) for one in plant_any(rng, Voice(), 2000).questions}
    assert kinds >= {
        "single", "same attribute", "same entity", "two hop", "pass phrase", "list", "scene",
        "assignment", "table", "unanswerable", "two keys", "crowd", "chain",
    }  # fmt: skip


@pytest.mark.parametrize("held_out", [True, False])
def test_names_come_from_the_wanted_side_of_the_split(held_out):
    rng = Random(5)
    names = [draw_entity("person", rng, held_out=held_out).name for _ in range(60)]
    assert {is_held_out(name) for name in names} == {held_out}


def test_a_crowd_has_one_value_for_each_name():
    plant = plants.plant_crowd(Random(3), Voice(refusals=0, extras=0), 40)
    assert len({question.text for question in plant.questions}) == 40


def test_held_out_wordings_are_about_a_fifth_and_never_trained_on():
    for wordings in (STATEMENTS, QUESTIONS):
        kept, trained = patterns_for(wordings, "held_out"), patterns_for(wordings, "train")
        assert not set(kept) & set(trained)
        assert set(kept) | set(trained) == set(wordings)
        assert 0.1 < len(kept) / len(wordings) < 0.35


def test_there_are_sixty_generic_wordings_of_each_sort():
    assert len(set(STATEMENTS)) >= 60
    assert len(set(QUESTIONS)) >= 60


def test_every_scene_can_be_told_and_asked():
    for scene in scenes():
        names = {name.split("_")[0] for text in scene.statements for name in slots_of(text)}
        assert names == set(scene.slots)
        for text, answer in scene.questions:
            asked = {name.split("_")[0] for name in slots_of(text)}
            assert asked <= set(scene.slots)
            assert answer in scene.slots
            assert answer not in asked  # a question must not give itself away


@pytest.mark.parametrize("kind", sorted(VALUE_KINDS))
def test_values_are_one_line_without_blanks_around(kind):
    rng = Random(kind)
    for _ in range(30):
        value = draw(kind, rng)
        assert value
        assert value == " ".join(value.split())


def test_a_template_refuses_a_missing_slot():
    with pytest.raises(KeyError):
        expand("the {A} of {E}", Random(0), {"A": "age"})
