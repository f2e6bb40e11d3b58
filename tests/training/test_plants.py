"""Facts, questions and answers: founded in the text, on the right side of the split."""

from dataclasses import replace
from random import Random

import pytest

from training.data import frames, plants
from training.data.attributes import made_attribute
from training.data.circumstances import CIRCUMSTANCES
from training.data.cloze import plant_cloze
from training.data.draws import NothingFits, draw_until
from training.data.entities import KEY_SHAPES, Entity, draw_entity, draw_key, draw_rival
from training.data.facts import Fact
from training.data.legends import plant_legend
from training.data.natural import Passage, disguise
from training.data.noise import blur
from training.data.plants import REFUSAL, plant_any
from training.data.predicates import plant_predicates
from training.data.scenes import scenes
from training.data.several import plural
from training.data.speech import Voice, frame_question
from training.data.split import is_held_out, patterns_for
from training.data.template import expand, slots_of
from training.data.translation import ask_about, plant_sentences, split_sentences
from training.data.values import VALUE_KINDS, counted_unit, draw
from training.data.verbs import base_of_past, verb_of
from training.data.wordings import QUESTIONS, STATEMENTS

# answers put together from several places
_JOINED = {"list", "others", "two keys", "three keys", "four keys", "sentence"}


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
        "assignment", "table", "unanswerable", "two keys", "crowd", "chain", "others", "inventory",
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
    pools = (
        STATEMENTS, QUESTIONS, frames.QUESTION_FRAMES, frames.NOUN_PHRASES, frames.PREDICATES,
        frames.SUBJECT_QUESTIONS, frames.SUBJECT_STATEMENTS,
    )  # fmt: skip
    for wordings in pools:
        kept, trained = patterns_for(wordings, "held_out"), patterns_for(wordings, "train")
        assert not set(kept) & set(trained)
        assert set(kept) | set(trained) == set(wordings)
        assert 0.1 < len(kept) / len(wordings) < 0.35


def test_there_are_sixty_generic_wordings_of_each_sort():
    assert len(set(STATEMENTS)) >= 60
    assert len(set(QUESTIONS)) >= 60


def test_a_question_composed_of_held_out_parts_has_no_trained_part():
    rng, voice = Random(2), Voice(wordings="held_out", own=0.0)
    trained = [
        pattern
        for pool in (QUESTIONS, frames.QUESTION_FRAMES, frames.SUBJECT_QUESTIONS)
        for pattern in patterns_for(pool, "train")
    ]
    for _ in range(200):
        pattern = frame_question("{NP}", rng, voice)
        assert pattern not in trained


def test_every_variable_of_a_chain_has_the_value_of_the_first():
    for seed in range(60):
        plant = plants.plant_chain(Random(seed), Voice(refusals=0))
        text = "\n".join(chunk.text for chunk in plant.chunks)
        values = {q.answer for q in plant.questions if q.kind == "assignment"}
        chained = [q for q in plant.questions if q.kind in ("chain", "long chain")]
        assert chained
        for question in chained:
            assert question.answer in values
            assert text.count(question.answer) >= 1


def test_a_near_miss_has_two_answers_and_two_refusals():
    for seed in range(30):
        plant = plants.plant_near_misses(Random(seed), Voice())
        answers = [question.answer for question in plant.questions]
        assert answers.count(REFUSAL) == 2
        text = "\n".join(chunk.text for chunk in plant.chunks).lower()
        assert all(answer.lower() in text for answer in answers if answer != REFUSAL)


def test_several_keys_are_answered_in_the_order_of_the_question():
    found = 0
    for seed in range(40):
        plant = plants.plant_crowd(Random(seed), Voice(extras=1.0, refusals=0.0), 5)
        single = [q for q in plant.questions if q.kind == "same attribute"]
        for question in plant.questions:
            if question.kind == "three keys":
                values = {one.answer for one in single}
                parts = question.answer.replace(" and ", ", ").split(", ")
                found += set(parts) <= values
    assert found > 10


@pytest.mark.parametrize("shape", sorted(KEY_SHAPES))
def test_a_rival_of_a_key_is_another_key(shape):
    rng = Random(shape)
    for _ in range(20):
        key = draw_key(shape, rng, held_out=False)
        assert draw_rival(key, rng, held_out=False).name != key.name


def test_a_disguised_passage_still_holds_its_answers():
    passage = Passage(
        "In 1984 Marlow paid 12 men. Marlow left in 1985.",
        (("Who paid 12 men?", "Marlow"), ("When did Marlow leave?", "1985")),
    )
    told = disguise(passage, Random(1))
    assert told.text != passage.text
    assert "Marlow" not in told.text
    for _, answer in told.questions:
        assert answer in told.text


def test_a_gap_is_filled_by_what_the_kept_text_says():
    text = (
        "Everyone in town knew old Marlow well enough. The mill was bought by Marlow that year. "
        "Nobody else wanted to have it, for it was damp. In winter the miller Marlow kept a fire."
    )
    plant = plant_cloze(text, Random(4), Voice())
    gaps = [question for question in plant.questions if question.kind == "gap"]
    assert gaps
    for question in gaps:
        assert "___" in question.text
        assert question.answer in plant.chunks[0].text


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


PARAGRAPH = (
    "The mill at Aldbrook was built in 1848 by Hester Vane. It burned twelve tons of coal a day, "
    "and the smoke could be seen from the harbour. After the war, the owners moved all machines "
    "to the island of Sarn, because the water there was cleaner. Nobody has lived there since."
)


def text_of(plant):
    return "\n".join(chunk.text for chunk in plant.chunks).lower()


@pytest.mark.parametrize("make", [plant_predicates, plant_legend])
def test_what_clauses_and_legends_ask_for_stands_in_them(make):
    rng = Random(6)
    for _ in range(200):
        plant = make(rng, Voice(refusals=0.0))
        assert plant.questions
        assert all(question.answer.lower() in text_of(plant) for question in plant.questions)


def test_every_circumstance_holds_its_answer():
    rng = Random(7)
    for make in CIRCUMSTANCES.values():
        for _ in range(50):
            drawn = make(rng, Voice())
            assert drawn.answer in drawn.text
            assert drawn.asked


def test_one_clause_is_said_and_asked_in_many_ways():
    rng = Random(8)
    plants_made = [plant_predicates(rng, Voice()) for _ in range(300)]
    openings = {
        question.text.split(" ")[0] for plant in plants_made for question in plant.questions
    }
    assert len(openings) > 40


def test_a_question_of_a_sentence_asks_for_a_span_that_it_does_not_name():
    rng, voice = Random(9), Voice()
    found = [ask_about(sentence, rng, voice) for sentence in split_sentences(PARAGRAPH) * 300]
    pairs = [pair for pair in found if pair]
    assert {"Hester Vane", "1848"} <= {answer for _, answer in pairs}
    assert all(answer in PARAGRAPH for _, answer in pairs)
    assert not any("Hester Vane" in text for text, answer in pairs if answer == "Hester Vane")
    assert any(text.startswith("By whom was the mill at Aldbrook built") for text, _ in pairs)


def test_no_question_asks_for_the_end_of_a_name():
    rng, told = Random(23), "In Leyte Gulf the 14th Amendment was read aloud to General Anna Bolt."
    found = {pair[1] for _ in range(300) if (pair := ask_about(told, rng, Voice()))}
    assert {"Leyte Gulf", "General Anna Bolt"} <= found
    assert not found & {"Gulf", "Amendment", "Anna Bolt", "Bolt"}


def test_strange_units_stay_in_the_answer():
    rng, voice = Random(24), Voice(lexicon=("ember", "harbour"))
    drawn = [CIRCUMSTANCES["measure"](rng, voice) for _ in range(200)]
    strange = [one for one in drawn if "ember" in one.answer]
    assert strange
    assert all(one.answer in one.text and one.answer[0].isdigit() for one in strange)


def test_a_sentence_that_is_left_out_is_asked_about_in_vain():
    plant = plant_sentences(PARAGRAPH, Random(10), Voice(refusals=1.0), left_out=1.0)
    assert text_of(plant) == ""
    assert {question.answer for question in plant.questions} == {REFUSAL}


def test_blurred_questions_differ_and_keep_their_first_word():
    rng, text = Random(11), "When did the owners of the old mill move all of their machines?"
    blurred = {blur(text, rng) for _ in range(40)}
    assert len(blurred) > 20
    assert {one.split(" ")[0] for one in blurred} == {"When"}


@pytest.mark.parametrize(
    ("base", "past"),
    [
        ("stop", "stopped"),
        ("carry", "carried"),
        ("change", "changed"),
        ("open", "opened"),
        ("go", "went"),
    ],
)
def test_a_past_tense_leads_back_to_its_verb(base, past):
    assert verb_of(base).past == past
    assert base_of_past(past) == base


def test_a_contrast_names_the_wrong_value_but_asks_for_the_right_one():
    rng, voice = Random(12), Voice(own=0.0, refusals=0.0, extras=0.0)
    made = [plants.plant_single(rng, voice) for _ in range(4000)]
    contrasted = [plant for plant in made if " rather than " in text_of(plant)]
    assert contrasted
    for plant in contrasted:
        wrong = text_of(plant).split(" rather than ")[1]
        assert plant.questions[0].answer.lower() not in wrong


def test_a_list_is_joined_as_its_sentence_is_or_by_commas():
    rng = Random(13)
    for _ in range(100):
        plant = plants.plant_list(rng, Voice(refusals=0))
        text, answer = text_of(plant), plant.questions[0].answer.lower()
        assert answer in text or all(value in text for value in answer.split(", "))


def test_lists_of_several_subjects_stand_in_the_order_of_the_answer():
    shape = plants.ListShape(least=3, most=3, subjects=3, scattered=1.0)
    rng, found = Random(14), 0
    for _ in range(60):
        plant = plants.plant_list(rng, Voice(extras=0), shape)
        assert len(plant.claims) == 3
        chunks = [chunk for chunk in plant.chunks if chunk.thread]
        for question in plant.questions:
            values = question.answer.split(", ")
            places = [_chunks_with(value, chunks) for value in values]
            if [len(one) for one in places] == [1, 1, 1]:  # nobody else has such a value
                assert places == sorted(places)
                found += 1
    assert found > 50


def _chunks_with(value, chunks):
    return [n for n, chunk in enumerate(chunks) if value.lower() in chunk.text.lower()]


def test_the_others_of_a_list_are_all_but_the_one_that_is_named():
    shape = plants.ListShape(least=4, most=4)
    rng, found = Random(15), 0
    for _ in range(60):
        plant = plants.plant_list(rng, Voice(extras=2.0), shape)
        whole = plant.questions[0].answer.replace(", and ", ", ").replace(" and ", ", ").split(", ")
        for question in plant.questions:
            rest = question.answer.split(", ")
            if question.kind == "others" and len(whole) == 4 and len(rest) == 3:
                (named,) = set(whole) - set(rest)
                assert named.lower() in question.text.lower()
                found += 1
    assert found > 20


def test_two_hop_rivals_share_one_of_the_hops():
    shape = plants.HopShape(subjects=3, seconds=2, strays=2, asked_alone=0.0)
    rng = Random(16)
    for _ in range(60):
        plant = plants.plant_two_hop(rng, Voice(), shape)
        assert [question.kind for question in plant.questions] == ["two hop"] * 6
        assert len(plant.claims) == 10  # subjects, those whom they lead to, and the strays' own
        assert all(question.answer.lower() in text_of(plant) for question in plant.questions)


def test_two_hop_rivals_may_share_the_second_hop_alone():
    shape = plants.HopShape(subjects=4, firsts=4, asked_alone=1.0)
    rng, voice = Random(21), Voice(own=0.0)
    for _ in range(60):
        questions = plants.plant_two_hop(rng, voice, shape).questions
        joint = [question.answer for question in questions if question.kind == "two hop"]
        alone = [question.answer for question in questions if question.kind == "single"]
        assert len(joint) == 4
        assert len(alone) == 8
        assert set(joint) <= set(alone)


def test_keys_of_a_near_crowd_differ_in_one_character_from_another():
    rng, voice = Random(22), Voice(refusals=0.0, extras=0.0)
    for _ in range(20):
        plant = plants.plant_shaped(rng, voice, 6, key="uuid", near=1.0)
        for key in plant.claims:
            assert min(_distance(key, other) for other in plant.claims - {key}) == 1


@pytest.mark.parametrize("near", [0.5, 1.0])
def test_the_greatest_crowds_end_whatever_their_keys(near):
    rng, voice = Random(25), Voice(refusals=1.0, extras=1.0)
    for shape in KEY_SHAPES:
        for held_out in (False, True):
            own = replace(voice, held_out=held_out)
            assert len(plants.plant_shaped(rng, own, 24, key=shape, near=near).claims) >= 24


def test_a_crowd_goes_on_where_all_near_keys_are_taken():
    first = Fact(Entity("key", "7"), made_attribute(Random(26)), "blue")  # nine neighbours
    plant = plants.plant_crowd(Random(26), Voice(refusals=0.0, extras=0.0), 24, first, near=1.0)
    assert len(plant.claims) == 24


def test_what_never_fits_is_given_up():
    with pytest.raises(NothingFits):
        draw_until(bool, lambda: 0)
    assert draw_until(bool, lambda: 0, lambda: 1) == 1


def _distance(one, other):
    return sum(a != b for a, b in zip(one, other, strict=True))


def test_a_portrait_of_like_attributes_asks_for_each_by_another_name():
    rng = Random(17)
    for _ in range(60):
        plant = plants.plant_portrait(rng, Voice(refusals=0, extras=0, own=0), 8, alike=True)
        assert len(plant.questions) >= 6
        assert len({question.text for question in plant.questions}) == len(plant.questions)


def test_a_unit_in_the_question_stays_in_the_answer():
    rng, voice = Random(18), Voice(own=0.0, refusals=0.0, extras=0.0)
    asked = [q for _ in range(3000) for q in plants.plant_single(rng, voice).questions]
    in_units = [q for q in asked if counted_unit(q.answer) and counted_unit(q.answer) in q.text]
    assert len(in_units) > 20
    assert counted_unit("47 metres") == "metres"
    assert counted_unit("half an hour") == ""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("address", "addresses"),
        ("key of the fox", "keys of the fox"),
        ("entry", "entries"),
        ("news", "news"),
    ],
)
def test_plurals_of_attributes(name, expected):
    assert plural(name) == expected


def test_a_rule_is_asked_for_in_the_unit_of_its_answer():
    rng, voice = Random(20), Voice(refusals=0.0)
    asked = [q for _ in range(2000) for q in plants.plant_scene(rng, voice).questions]
    in_units = [q for q in asked if f"ow many {counted_unit(q.answer) or '-'}" in q.text]
    assert len({counted_unit(q.answer) for q in in_units}) > 10


def test_goods_are_counted_where_they_are_and_refused_elsewhere():
    rng, kinds = Random(19), set()
    for _ in range(100):
        plant = plants.plant_inventory(rng, Voice(refusals=0.5))
        for question in plant.questions:
            kinds.add(question.kind)
            if question.kind == "inventory":
                assert question.answer in text_of(plant)
    assert kinds == {"inventory", "unanswerable"}
