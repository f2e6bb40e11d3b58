"""Excerpts: each block is well formed, and what is asked of it is told, or is nowhere told."""

from random import Random

import pytest

from training.data.excerpts.excerpt import excerpts, parse
from training.data.excerpts.plant import plant_excerpts
from training.data.slots import ENTITY_KINDS
from training.data.speech import Voice
from training.data.template import expand, slots_of
from training.data.values import VALUE_KINDS
from training.data.wordings import REFUSAL

BLOCK = """
X part: drain plug | hub nut | cover screw
K part
S tighten the {part} to {tq:measure} [crosswise|in two passes]
S no more than {tq} for the {part}
Q How hard do I screw in the {part}?=tq
Q What takes so much force?=the {part}
N What size of wrench fits the {part}?
""".strip()
ALL = excerpts(held_out=False) + excerpts(held_out=True)


def told(plant):
    return "\n".join(chunk.text for chunk in plant.chunks).lower()


def test_a_block_is_read_as_it_is_written():
    excerpt = parse(BLOCK)
    assert excerpt.key == "part"
    assert excerpt.tellings[0] == "tighten the {part} to {tq} [crosswise|in two passes]"
    assert excerpt.kinds == {"tq": "measure"}
    assert excerpt.options == {"part": ("drain plug", "hub nut", "cover screw")}
    assert excerpt.questions[0] == ("How hard do I screw in the {part}?", "{tq}")
    assert excerpt.questions[1] == ("What takes so much force?", "the {part}")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("Y what is this", "no line of an excerpt"),
        ("S a {thing}", "unknown slot"),
        ("S {tq:measure} for the plug", "no key"),
        ("S {part} at {tq:heat}", "two kinds"),
        ("S {part:thing} at {tq}", "declared twice"),
        ("Q Who tightens it?=nobody", "unknown slot"),
        ("Q How hard is the {part} tightened?=part", "gives its answer away"),
        ("X nut: one", "one option"),
    ],
)
def test_a_faulty_block_is_refused(line, complaint):
    with pytest.raises(ValueError, match=complaint):
        parse(f"{BLOCK}\n{line}")


def test_there_are_many_excerpts_and_one_in_eight_is_never_trained_on():
    trained, kept = excerpts(held_out=False), excerpts(held_out=True)
    assert len(trained) >= 1000
    assert 0.08 < len(kept) / len(trained + kept) < 0.18
    assert not {one.tellings for one in trained} & {one.tellings for one in kept}


def test_every_slot_can_be_drawn_and_is_told():
    for excerpt in ALL:
        assert set(excerpt.kinds.values()) <= VALUE_KINDS | set(ENTITY_KINDS)
        assert excerpt.slots == {name for text in excerpt.tellings for name in slots_of(text)}


def test_every_question_is_answered_by_one_telling_at_least():
    for excerpt in ALL:
        slots = {name: f"<{name}>" for name in excerpt.slots}
        for question, answer in excerpt.questions:
            wanted = slots_of(question) | slots_of(answer)
            said = [t for t in excerpt.tellings if wanted <= slots_of(t)]
            assert any(
                expand(answer, Random(0), slots) in expand(t, Random(0), slots) for t in said
            ), question


def test_every_answer_stands_in_what_is_told():
    rng, voice = Random(3), Voice(refusals=0.5)
    for excerpt in ALL:
        plant = plant_excerpts(rng, voice, excerpt)
        for question in plant.questions:
            is_refused = question.answer == REFUSAL
            assert question.kind == ("unanswerable" if is_refused else "excerpt")
            assert is_refused or question.answer.lower() in told(plant)


def test_beside_others_of_the_kind_only_questions_with_the_key_are_asked():
    excerpt, rng = parse(BLOCK), Random(1)
    plants = [plant_excerpts(rng, Voice(refusals=0.0), excerpt) for _ in range(200)]
    ways = set()
    for plant in plants:
        keys = [part for part in excerpt.options["part"] if part in told(plant)]
        ways.add((len(keys), len(plant.chunks)))
        if len(keys) > 1:
            for question in plant.questions:
                assert sum(key in question.text.lower() for key in keys) == 1
    assert ways == {(1, 1), (2, 2), (2, 1)}, "one, two apart, two side by side"


def test_what_is_refused_is_asked_of_what_is_not_told_or_is_unsaid():
    excerpt, rng = parse(BLOCK), Random(2)
    refused = 0
    for _ in range(200):
        plant = plant_excerpts(rng, Voice(refusals=1.0), excerpt)
        for question in plant.questions:
            if question.answer == REFUSAL:
                refused += 1
                asked = [part for part in excerpt.options["part"] if part in question.text.lower()]
                assert "wrench" in question.text.lower() or asked[0] not in told(plant)
    assert refused > 150


def test_an_answer_brings_its_unit_of_measure_and_not_what_is_counted():
    excerpt = parse(
        "S {n:unitless} hours of notice and {k:unitless} copies are wanted\n"
        "Q How many hours of notice are wanted?=n\nQ How many copies are wanted?=k"
    )
    rng = Random(4)
    asked = [
        q for _ in range(60) for q in plant_excerpts(rng, Voice(refusals=0), excerpt).questions
    ]
    assert {q.answer.isdigit() for q in asked if "copies" in q.text.lower()} == {True}
    assert all(q.answer.endswith(" hours") for q in asked if "notice" in q.text.lower())


def test_with_a_lexicon_some_options_are_strange_and_still_what_is_told():
    excerpt, rng = parse(BLOCK), Random(5)
    voice = Voice(refusals=0.0, lexicon=("anchorage", "custodial", "butterfly", "overt"))
    plants = [plant_excerpts(rng, voice, excerpt) for _ in range(200)]
    usual = [any(part in told(plant) for part in excerpt.options["part"]) for plant in plants]
    assert 100 < sum(usual) < 200
    for plant in plants:
        assert all(question.answer.lower() in told(plant) for question in plant.questions)
