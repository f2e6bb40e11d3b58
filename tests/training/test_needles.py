"""Needles: what they ask is founded in their text, and comes from the wanted side of the split."""

import re
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from training.data.assignments import make_chain
from training.data.attributes import compose_attribute
from training.data.circumstances import CIRCUMSTANCES
from training.data.clauses import make_clauses
from training.data.cloze import make_cloze
from training.data.cloze_translation import (
    ask_about,
    make_sentence_questions,
    name_subject,
    split_sentences,
)
from training.data.entities import KEY_SHAPES, Entity, draw_entity, draw_key, draw_rival
from training.data.excerpt_split import EVALUATION, RELEASE, TRAIN, excerpts
from training.data.excerpts import make_excerpts, make_neighbours
from training.data.facts import REFUSAL, Fact
from training.data.groups import (
    make_near_misses,
    make_same_attribute,
    make_same_entity,
    make_shaped,
    make_single,
)
from training.data.inventories import make_inventory
from training.data.legends import make_legend
from training.data.lists import ListShape, make_list
from training.data.needles import draw_needle
from training.data.phrasing import StyleConfig
from training.data.scenes import make_scene
from training.data.split import is_held_out
from training.data.text import plural
from training.data.timetables import make_timetable
from training.data.two_hops import HopShape, make_two_hop
from training.data.values import VALUE_KINDS, counted_unit, draw
from training.data.verbs import base_of_past, verb_of

# answers put together from several places
JOINED = {"list", "others", "two keys", "three keys", "four keys", "sentence"}
PLAIN = StyleConfig(refusals=0.0, extras=0.0)
PARAGRAPH = (
    "The mill at Aldbrook was built in 1848 by Hester Vane. It burned twelve tons of coal a day, "
    "and the smoke could be seen from the harbour. After the war, the owners moved all machines "
    "to the island of Sarn, because the water there was cleaner. Nobody has lived there since."
)
CLOCK = re.compile(r"\d[:.]\d\d|o'clock|half past|quarter to|[ap]m\b")
HOUR = re.compile(r"\b(?:what time|which hour|what hour)\b", re.IGNORECASE)
LENGTH = re.compile(r"\b(?:how long|how often|what intervals)\b", re.IGNORECASE)


def text_of(needle):
    return "\n".join(chunk.text for chunk in needle.chunks).lower()


def made(make, count, *arguments, style=PLAIN, **named):
    rng = Random(1)
    return [make(rng, style, *arguments, **named) for _ in range(count)]


def test_needles_are_various_and_every_answer_stands_in_the_text():
    kinds = set()
    for needle in made(draw_needle, 400, 2000, style=StyleConfig()):
        text = text_of(needle)
        for question in needle.questions:
            kinds.add(question.kind)
            if question.answer == REFUSAL:
                assert question.kind == "unanswerable"
            elif question.kind not in JOINED:
                assert question.answer.lower() in text
    assert kinds >= {
        "single", "same attribute", "same entity", "two hop", "pass phrase", "list", "scene",
        "assignment", "table", "unanswerable", "two keys", "crowd", "chain", "others", "inventory",
        "excerpt", "timetable", "predicate", "legend",
    }  # fmt: skip


@pytest.mark.parametrize("held_out", [True, False])
def test_names_come_from_the_wanted_side_of_the_split(held_out):
    rng = Random(5)
    names = [draw_entity("person", rng, held_out=held_out).name for _ in range(60)]
    assert {is_held_out(name) for name in names} == {held_out}


def test_values_of_every_kind_are_one_line_without_blanks_around():
    for kind in sorted(VALUE_KINDS):
        for seed in range(30):
            value = draw(kind, Random(f"{kind} {seed}"))
            assert value == " ".join(value.split()) != ""


# -- one attribute of several subjects, several of one ---------------------------------------------


def test_every_subject_is_asked_for_by_itself():
    (needle,) = made(make_same_attribute, 1, 40)
    assert len({question.text for question in needle.questions}) == 40


def test_several_keys_are_answered_in_the_order_of_the_question():
    found = 0
    for needle in made(make_same_attribute, 40, 5, style=replace(PLAIN, extras=1.0)):
        values = {q.answer for q in needle.questions if q.kind == "same attribute"}
        for question in needle.questions:
            if question.kind == "three keys":
                parts = question.answer.replace(" and ", ", ").split(", ")
                found += set(parts) <= values
    assert found > 10


def test_a_near_miss_has_two_answers_and_two_refusals():
    for needle in made(make_near_misses, 30):
        answers = [question.answer for question in needle.questions]
        assert answers.count(REFUSAL) == 2
        assert all(answer.lower() in text_of(needle) for answer in answers if answer != REFUSAL)


def test_a_rival_of_a_key_is_another_key():
    for shape in KEY_SHAPES:
        for seed in range(20):
            key = draw_key(shape, Random(seed), held_out=False)
            assert draw_rival(key, Random(seed), held_out=False).name != key.name


def test_near_keys_differ_in_one_character_from_another():
    for needle in made(make_shaped, 20, 6, key="uuid", near=1.0):
        for key in needle.claims:
            others = needle.claims - {key}
            assert min(sum(a != b for a, b in zip(key, one, strict=True)) for one in others) == 1


@pytest.mark.parametrize("near", [0.5, 1.0])
def test_the_greatest_groups_end_whatever_their_keys(near):
    for shape in KEY_SHAPES:
        for held_out in (False, True):
            style = StyleConfig(refusals=1.0, extras=1.0, held_out=held_out)
            needle = make_shaped(Random(25), style, 24, key=shape, near=near)
            assert len(needle.claims) >= 24
    first = Fact(Entity("key", "7"), compose_attribute(Random(26)), "blue")  # nine neighbours
    assert len(make_same_attribute(Random(26), PLAIN, 24, first, near=1.0).claims) == 24


def test_like_attributes_of_one_subject_are_asked_for_by_different_names():
    for needle in made(make_same_entity, 60, 8, style=replace(PLAIN, own=0.0), alike=True):
        assert len({question.text for question in needle.questions}) == len(needle.questions) >= 6


def test_a_contrast_names_the_wrong_value_but_asks_for_the_right_one():
    needles = made(make_single, 4000, style=replace(PLAIN, own=0.0))
    contrasted = [needle for needle in needles if " rather than " in text_of(needle)]
    assert contrasted
    for needle in contrasted:
        wrong = text_of(needle).split(" rather than ")[1]
        assert needle.questions[0].answer.lower() not in wrong


def test_a_unit_in_the_question_stays_in_the_answer():
    asked = [
        q for one in made(make_single, 3000, style=replace(PLAIN, own=0.0)) for q in one.questions
    ]
    in_units = [q for q in asked if counted_unit(q.answer) and counted_unit(q.answer) in q.text]
    assert len(in_units) > 20
    assert counted_unit("47 metres") == "metres"
    assert counted_unit("half an hour") == ""


# -- lists, chains, two hops -----------------------------------------------------------------------


def test_a_list_is_joined_as_its_sentence_is_or_by_commas():
    for needle in made(make_list, 100):
        text, answer = text_of(needle), needle.questions[0].answer.lower()
        assert answer in text or all(value in text for value in answer.split(", "))


def test_lists_of_several_subjects_stand_in_the_order_of_the_answer():
    shape, found = ListShape(least=3, most=3, subjects=3, scattered=1.0), 0
    for needle in made(make_list, 60, shape):
        assert len(needle.claims) == 3
        texts = [chunk.text.lower() for chunk in needle.chunks if chunk.thread]
        for question in needle.questions:
            values = question.answer.lower().split(", ")
            places = [[n for n, text in enumerate(texts) if value in text] for value in values]
            if [len(one) for one in places] == [1, 1, 1]:  # nobody else has such a value
                assert places == sorted(places)
                found += 1
    assert found > 50


def test_the_others_of_a_list_are_all_but_the_one_that_is_named():
    shape, found = ListShape(least=4, most=4), 0
    for needle in made(make_list, 60, shape, style=replace(PLAIN, extras=2.0)):
        answer = needle.questions[0].answer
        whole = answer.replace(", and ", ", ").replace(" and ", ", ").split(", ")
        for question in needle.questions:
            rest = question.answer.split(", ")
            if question.kind == "others" and len(whole) == 4 and len(rest) == 3:
                (named,) = set(whole) - set(rest)
                assert named.lower() in question.text.lower()
                found += 1
    assert found > 20


@pytest.mark.parametrize(
    ("name", "expected"),
    [("address", "addresses"), ("key of the fox", "keys of the fox"), ("entry", "entries"),
     ("news", "news")],
)  # fmt: skip
def test_plurals_of_attributes(name, expected):
    assert plural(name) == expected


def test_every_variable_of_a_chain_has_the_value_of_the_first():
    for needle in made(make_chain, 60):
        values = {q.answer for q in needle.questions if q.kind == "assignment"}
        chained = [q for q in needle.questions if q.kind in ("chain", "long chain")]
        assert chained
        assert all(q.answer in values and q.answer.lower() in text_of(needle) for q in chained)


def test_two_hop_rivals_share_one_of_the_hops():
    shape = HopShape(subjects=3, seconds=2, strays=2, asked_alone=0.0)
    for needle in made(make_two_hop, 60, shape):
        assert [question.kind for question in needle.questions] == ["two hop"] * 6
        assert len(needle.claims) == 10  # subjects, those whom they lead to, and the strays' own
        assert all(question.answer.lower() in text_of(needle) for question in needle.questions)


def test_two_hop_rivals_may_share_the_second_hop_alone():
    shape = HopShape(subjects=4, firsts=4, asked_alone=1.0)
    for needle in made(make_two_hop, 60, shape, style=replace(PLAIN, own=0.0)):
        joint = [one.answer for one in needle.questions if one.kind == "two hop"]
        alone = [one.answer for one in needle.questions if one.kind == "single"]
        assert (len(joint), len(alone)) == (4, 8)
        assert set(joint) <= set(alone)


# -- clauses, legends, scenes, inventories, timetables ---------------------------------------------


@pytest.mark.parametrize("make", [make_clauses, make_legend])
def test_what_clauses_and_legends_ask_for_stands_in_them(make):
    for needle in made(make, 200):
        assert needle.questions
        assert all(question.answer.lower() in text_of(needle) for question in needle.questions)


def test_one_clause_is_said_and_asked_in_many_ways():
    asked = [q.text for one in made(make_clauses, 300) for q in one.questions]
    assert len({text.split(" ")[0] for text in asked}) > 40


def test_every_circumstance_holds_its_answer_strange_units_too():
    rng, style = Random(7), StyleConfig(lexicon=("ember", "harbour"))
    for name, make in CIRCUMSTANCES.items():
        drawn = [make(rng, style) for _ in range(200)]
        assert all(one.answer in one.text and one.asked for one in drawn)
        if name == "measure":
            assert any("ember" in one.answer for one in drawn)


def test_a_rule_is_asked_for_in_the_unit_of_its_answer():
    asked = [q for needle in made(make_scene, 2000) for q in needle.questions]
    in_units = [q for q in asked if f"ow many {counted_unit(q.answer) or '-'}" in q.text]
    assert len({counted_unit(q.answer) for q in in_units}) > 10


def test_goods_are_counted_where_they_are_and_refused_elsewhere():
    kinds = set()
    for needle in made(make_inventory, 100, style=StyleConfig(refusals=0.5)):
        kinds |= {question.kind for question in needle.questions}
        assert all(q.answer in text_of(needle) for q in needle.questions if q.kind == "inventory")
    assert kinds == {"inventory", "unanswerable"}


def test_what_is_asked_by_the_clock_is_no_length_of_time_and_the_other_way_round():
    needles = made(make_timetable, 300, style=StyleConfig(refusals=0.5))
    others = 0
    for needle in needles:
        answered = [one for one in needle.questions if one.answer != REFUSAL]
        assert any(CLOCK.search(one.answer) for one in answered)
        others += sum(not CLOCK.search(one.answer) for one in answered)
        assert not {"{", "|"} & set(text_of(needle))
        texts = {one.text: one.answer for one in needle.questions}
        assert all(texts[one.text] == one.answer for one in needle.questions)  # one answer each
        for one in answered:
            assert not HOUR.search(one.text) or CLOCK.search(one.answer)
            assert not LENGTH.search(one.text) or not CLOCK.search(one.answer)
    assert others > 100


@pytest.mark.parametrize("refusals", [0.0, 1.0])
def test_refusals_come_as_often_as_the_style_has_them(refusals):
    needles = made(make_timetable, 60, style=StyleConfig(refusals=refusals))
    refused = sum(one.answer == REFUSAL for needle in needles for one in needle.questions)
    assert (refused > 60) == bool(refusals)


# -- neighbouring excerpts -------------------------------------------------------------------------


def test_neighbours_stand_near_each_other_in_the_files_and_answer_what_they_are_asked():
    trained = excerpts(TRAIN)
    places = {one.statements[0].lower(): place for place, one in enumerate(trained)}
    in_one_place = 0
    for seed in range(60):
        needle = make_neighbours(Random(seed), PLAIN, 5)
        found = sorted(places[one] for one in needle.claims if one in places)
        gaps = [after - before for before, after in pairwise(found)]
        assert len(found) == 5
        assert sum(gap < 15 for gap in gaps) >= len(gaps) - 1  # one may be where the files end
        assert all(question.answer.lower() in text_of(needle) for question in needle.questions)
        in_one_place += len(needle.chunks) == 1
    assert 15 < in_one_place < 45


def test_neighbours_that_are_not_told_are_asked_for_and_refused():
    def count(size):
        style = StyleConfig(refusals=1.0)
        needles = [make_neighbours(Random(seed), style, size) for seed in range(60)]
        return sum(q.answer == REFUSAL for needle in needles for q in needle.questions)

    assert count(8) > 9.5 * count(1) > 0  # eight times would be their own


@pytest.mark.parametrize(
    ("style", "side"),
    [
        (StyleConfig(), TRAIN),
        (StyleConfig(wordings="held_out"), EVALUATION),
        (StyleConfig(wordings="held_out", is_release=True), RELEASE),
    ],
)
def test_every_side_of_the_split_has_excerpts_of_its_own(style, side):
    sides = {name: {one.statements[0].lower() for one in excerpts(name)}
             for name in (TRAIN, EVALUATION, RELEASE)}  # fmt: skip
    others = set().union(*(sides[name] for name in sides if name != side))
    for needle in made(make_neighbours, 20, 4, style=style) + made(make_excerpts, 20, style=style):
        assert needle.claims & sides[side]
        assert not needle.claims & others


# -- questions made of sentences -------------------------------------------------------------------


def test_a_gap_is_filled_by_what_the_kept_text_says():
    text = (
        "Everyone in town knew old Marlow well enough. The mill was bought by Marlow that year. "
        "Nobody else wanted to have it, for it was damp. In winter the miller Marlow kept a fire."
    )
    needle = make_cloze(text, Random(4), StyleConfig())
    gaps = [question for question in needle.questions if question.kind == "gap"]
    assert gaps
    assert all("___" in one.text and one.answer in needle.chunks[0].text for one in gaps)


def test_a_question_of_a_sentence_asks_for_a_span_that_it_does_not_name():
    rng = Random(9)
    found = [ask_about(one, rng, StyleConfig()) for one in split_sentences(PARAGRAPH) * 300]
    pairs = [pair for pair in found if pair]
    assert {"Hester Vane", "1848"} <= {answer for _, answer in pairs}
    assert all(answer in PARAGRAPH for _, answer in pairs)
    assert not any("Hester Vane" in text for text, answer in pairs if answer == "Hester Vane")
    assert any(text.startswith("By whom was the mill at Aldbrook built") for text, _ in pairs)


def test_no_question_asks_for_the_end_of_a_name():
    rng, told = Random(23), "In Leyte Gulf the 14th Amendment was read aloud to General Anna Bolt."
    found = {pair[1] for _ in range(300) if (pair := ask_about(told, rng, StyleConfig()))}
    assert {"Leyte Gulf", "General Anna Bolt"} <= found
    assert not found & {"Gulf", "Amendment", "Anna Bolt", "Bolt"}


def test_a_sentence_that_is_left_out_is_asked_about_in_vain():
    needle = make_sentence_questions(PARAGRAPH, Random(10), StyleConfig(refusals=1.0), left_out=1.0)
    assert text_of(needle) == ""
    assert {question.answer for question in needle.questions} == {REFUSAL}


def test_a_pronoun_gives_way_to_the_name_before_it():
    sentence, subject = name_subject("Hester Vane built the mill.", "")
    assert (sentence, subject) == ("Hester Vane built the mill.", "Hester Vane")
    assert name_subject("Her brother left.", subject)[0] == "Hester Vane's brother left."
    after = "After the war they left."
    assert name_subject(after, subject) == (after, "Hester Vane")


@pytest.mark.parametrize(
    ("base", "past"),
    [("stop", "stopped"), ("carry", "carried"), ("change", "changed"), ("open", "opened"),
     ("go", "went")],
)  # fmt: skip
def test_a_past_tense_leads_back_to_its_verb(base, past):
    assert verb_of(base).past == past
    assert base_of_past(past) == base
