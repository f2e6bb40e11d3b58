"""The tables: every record can be stated and asked, and what is held out stays held out."""

from random import Random
from zlib import crc32

import pytest

from tests.training.test_templates import RECORD
from training.data.attributes import attributes
from training.data.entities import ENTITY_KINDS
from training.data.excerpt_split import EVALUATION, RELEASE, TRAIN, excerpts
from training.data.excerpts import make_excerpts
from training.data.facts import REFUSAL
from training.data.phrasing import StyleConfig, frame_question
from training.data.scenes import scenes
from training.data.split import NothingFits, draw_until, patterns_for
from training.data.templates import (
    expand,
    parse_fact_record,
    parse_record,
    slots_of,
    template_list,
    template_lists,
)
from training.data.timetables import sorts
from training.data.values import VALUE_KINDS

EXCERPT = parse_fact_record(parse_record(RECORD))
GENERIC = {  # sections that are said of any attribute
    "wordings": (
        "statements", "pronoun statements", "questions", "statement heads", "statement tails",
        "question heads", "question tails", "inner tails",
    ),
    "frames": tuple(template_lists("frames")),
}  # fmt: skip


def told(needle):
    return "\n".join(chunk.text for chunk in needle.chunks).lower()


def test_every_excerpt_has_slots_that_can_be_drawn_and_questions_that_are_answered():
    every = excerpts(TRAIN) + excerpts(EVALUATION) + excerpts(RELEASE)
    assert len(every) > 20_000
    for excerpt in every:
        assert set(excerpt.kinds.values()) <= VALUE_KINDS | set(ENTITY_KINDS)
        assert excerpt.slots == {name for text in excerpt.statements for name in slots_of(text)}
        slots = {name: f"<{name}>" for name in excerpt.slots}
        for question, answer in excerpt.questions:
            wanted = slots_of(question) | slots_of(answer)
            said = [text for text in excerpt.statements if wanted <= slots_of(text)]
            value = expand(answer, Random(0), slots)
            assert any(value in expand(text, Random(0), slots) for text in said), question


def test_every_scene_and_timetable_can_be_stated_and_asked():
    for scene in scenes():
        names = {name.split("_")[0] for text in scene.statements for name in slots_of(text)}
        assert names == set(scene.kinds)
        for text, answer in scene.questions:
            asked = {name.split("_")[0] for name in slots_of(text)}
            assert asked <= names
            assert slots_of(answer) <= names - asked
    for sort in sorts():
        assert len(sort.names) > 1
        assert [part.kind for part in sort.parts].count("time") == 2
        for part in sort.parts:
            assert part.kind in VALUE_KINDS
            assert any("{u}" not in text for text in part.questions)
            assert all("{V}" in clause and "|" in clause for clause in part.clauses)
            assert all("{S}" in text for text in part.questions)


# -- the split -------------------------------------------------------------------------------------


def held_out(pools):
    """How many templates the pools hold out, and their checksum."""
    kept = sorted(one for pool in pools for one in patterns_for(pool, "held_out"))
    return len(kept), crc32("\n".join(kept).encode())


def test_what_is_held_out_is_what_was_held_out_in_run_5():
    generic = [template_list(table, name) for table, names in GENERIC.items() for name in names]
    own = [pool for one in attributes() for pool in (one.statements, one.questions)]
    assert held_out(generic) == (173, 2144329415)
    assert held_out(own) == (172, 1851081470)


def test_a_fifth_of_the_templates_is_never_trained_on():
    for name in ("question frames", "noun phrases", "predicates", "subject questions"):
        pool = template_list("frames", name)
        kept, trained = patterns_for(pool, "held_out"), patterns_for(pool, "train")
        assert set(kept) | set(trained) == set(pool)
        assert not set(kept) & set(trained)
        assert 0.1 < len(kept) / len(pool) < 0.35


def test_a_question_composed_of_held_out_parts_has_no_trained_part():
    rng, style = Random(2), StyleConfig(wordings="held_out", own=0.0)
    pools = (template_list("wordings", "questions"), template_list("frames", "question frames"),
             template_list("frames", "subject questions"))  # fmt: skip
    trained = {pattern for pool in pools for pattern in patterns_for(pool, "train")}
    assert trained.isdisjoint(frame_question("{NP}", rng, style) for _ in range(200))


def test_what_never_fits_is_given_up():
    with pytest.raises(NothingFits):
        draw_until(bool, lambda: 0)
    assert draw_until(bool, lambda: 0, lambda: 1) == 1


# -- needles of excerpts ---------------------------------------------------------------------------


def test_every_answer_about_an_excerpt_stands_in_what_is_stated():
    rng, style = Random(3), StyleConfig(refusals=0.5)
    for excerpt in excerpts(TRAIN)[::8]:
        needle = make_excerpts(rng, style, excerpt)
        for question in needle.questions:
            is_refused = question.answer == REFUSAL
            assert question.kind == ("unanswerable" if is_refused else "excerpt")
            assert is_refused or question.answer.lower() in told(needle)


def test_beside_others_of_the_kind_only_questions_with_the_key_are_asked():
    rng = Random(1)
    needles = [make_excerpts(rng, StyleConfig(refusals=0.0), EXCERPT) for _ in range(200)]
    ways = set()
    for needle in needles:
        keys = [part for part in EXCERPT.options["part"] if part in told(needle)]
        ways.add((len(keys), len(needle.chunks)))
        if len(keys) > 1:
            for question in needle.questions:
                assert sum(key in question.text.lower() for key in keys) == 1
    assert ways == {(1, 1), (2, 2), (2, 1)}, "one, two apart, two side by side"


def test_what_is_refused_is_asked_of_another_one_or_is_unanswerable():
    rng, refused = Random(2), 0
    for _ in range(200):
        needle = make_excerpts(rng, StyleConfig(refusals=1.0), EXCERPT)
        for question in needle.questions:
            if question.answer == REFUSAL:
                refused += 1
                asked = [part for part in EXCERPT.options["part"] if part in question.text.lower()]
                assert "wrench" in question.text.lower() or asked[0] not in told(needle)
    assert refused > 150


def test_an_answer_brings_its_unit_of_measure_and_not_what_is_counted():
    excerpt = parse_fact_record(parse_record(
        "S {n:unitless} hours of notice and {k:unitless} copies are wanted\n"
        "Q How many hours of notice are wanted?=n\nQ How many copies are wanted?=k"
    ))  # fmt: skip
    rng, style = Random(4), StyleConfig(refusals=0.0)
    asked = [q for _ in range(60) for q in make_excerpts(rng, style, excerpt).questions]
    assert {q.answer.isdigit() for q in asked if "copies" in q.text.lower()} == {True}
    assert all(q.answer.endswith(" hours") for q in asked if "notice" in q.text.lower())


def test_with_a_lexicon_some_options_are_strange_and_still_what_is_stated():
    rng, lexicon = Random(5), ("anchorage", "custodial", "butterfly", "overt")
    style = StyleConfig(refusals=0.0, lexicon=lexicon)
    needles = [make_excerpts(rng, style, EXCERPT) for _ in range(200)]
    usual = [any(part in told(one) for part in EXCERPT.options["part"]) for one in needles]
    assert 100 < sum(usual) < 200
    for needle in needles:
        assert all(question.answer.lower() in told(needle) for question in needle.questions)
