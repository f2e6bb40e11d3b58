"""Needles of rules, events and relations (tables/scenes.txt), with slots that are asked for."""

import re
from collections.abc import Mapping
from functools import cache
from random import Random

from training.data import values
from training.data.entities import ENTITY_KINDS, Entity, draw_entity, draw_slot
from training.data.facts import (
    REFUSAL,
    Chunk,
    Needle,
    Question,
    claim,
    draw_attribute,
    draw_kind,
    refuse,
)
from training.data.phrasing import StyleConfig, say_question, say_sentence
from training.data.split import draw_until
from training.data.templates import (
    FactRecord,
    expand,
    parse_fact_record,
    read_records,
    slots_of,
    word_list,
)

_HOW_STRONG = re.compile(r"(?<=t |h )wh(?:at|ich) (?:force|measure|temperature)\b")
_HOW_LONG = re.compile(r"(?<=\b[Hh])ow (?:long|soon|far|much time)\b")
_SUBJECT_SLOTS = ENTITY_KINDS | {"person": "person", "org": "body", "place": "site"}
_TELLING_KINDS = frozenset(_SUBJECT_SLOTS) | {"damaged"}


@cache
def scenes() -> tuple[FactRecord, ...]:
    """All kinds of rules, events and relations."""
    return tuple(map(parse_fact_record, read_records("scenes")))


def make_scene(rng: Random, style: StyleConfig) -> Needle:
    """A rule, an event or a relation of several slots."""
    scene = rng.choice(scenes())
    slots = _fill_all(scene, rng, style)
    statement = rng.choice(scene.statements)
    sentence = say_sentence(expand(statement, rng, slots), rng, style)
    founded = [pair for pair in scene.questions if _bases("".join(pair)) <= _bases(statement)]
    asked = rng.sample(founded, min(len(founded), rng.randint(1, 3)))
    questions = []
    for text, answer in asked:
        said, value = expand(text, rng, slots), expand(answer, rng, slots)
        questions.append(Question(_worded(said, value, rng, style), value, "scene"))
    if rng.random() < style.refusals:
        questions.append(_missing_from(scene, slots, rng, style))
    is_block = rng.random() < 0.25
    return Needle((Chunk(sentence, is_block),), tuple(questions), _claims(scene, slots))


def _worded(text: str, answer: str, rng: Random, style: StyleConfig) -> str:
    """A question as it is asked: now and then for how many days instead of for how long."""
    unit = values.counted_unit(answer)
    if unit in word_list("time units") and rng.random() < 0.25:
        text = _HOW_LONG.sub(f"ow many {unit}", text, count=1)
    elif unit and rng.random() < 0.5:
        text = _HOW_STRONG.sub(f"how many {unit}", text, count=1)
    return say_question(text, rng, style)


def _claims(scene: FactRecord, slots: Mapping[str, str]) -> frozenset[str]:
    """Names anywhere, and what the questions mention in scenes of this kind."""
    names = [slots[slot] for slot, kind in scene.kinds.items() if kind in _SUBJECT_SLOTS]
    asked = {base for text, _ in scene.questions for base in _bases(text)}
    first = scene.statements[0]
    return claim(*names, *(f"{first} {slots[slot]}" for slot in asked)) or claim(first)


def _missing_from(
    scene: FactRecord, slots: Mapping[str, str], rng: Random, style: StyleConfig
) -> Question:
    """Ask for something else about one who is in the scene, or the same about others."""
    subjects = [name for name, kind in scene.kinds.items() if kind in _SUBJECT_SLOTS]
    telling = [text for text, _ in scene.questions if _is_telling(text, scene)]
    if subjects and (not telling or rng.random() < 0.5):
        name = rng.choice(subjects)
        entity = Entity(_SUBJECT_SLOTS[scene.kinds[name]], slots[name])
        unsaid = draw_until(
            lambda one: one.value not in scene.kinds.values(),
            lambda: draw_attribute(entity.kind, rng, style),
        )
        return refuse(entity, unsaid, rng, style)
    other = _fill_all(scene, rng, style)
    if not telling:
        entity = draw_entity(draw_kind(rng), rng, held_out=style.held_out)
        return refuse(entity, draw_attribute(entity.kind, rng, style), rng, style)
    text = rng.choice(telling)
    return Question(say_question(expand(text, rng, other), rng, style), REFUSAL, "unanswerable")


def _is_telling(question: str, scene: FactRecord) -> bool:
    """Whether the question names someone or something that hardly another scene shares."""
    return any(scene.kinds[base] in _TELLING_KINDS for base in _bases(question))


def _bases(template: str) -> set[str]:
    """Names of slots; the forms of a verb count as the verb."""
    return {name.split("_")[0] for name in slots_of(template)}


def _fill_all(scene: FactRecord, rng: Random, style: StyleConfig) -> dict[str, str]:
    slots: dict[str, str] = {}
    for name, kind in scene.kinds.items():
        slots[name] = _fill_otherwise(kind, slots, rng, style)
    for name, kind in scene.kinds.items():
        if kind == "verb":
            slots[f"{name}_ed"], slots[f"{name}_ing"] = values.verb_forms(slots[name])
    return slots


def _fill_otherwise(kind: str, slots: Mapping[str, str], rng: Random, style: StyleConfig) -> str:
    """A value that no slot has: two of the same would make a question ambiguous."""
    return draw_until(
        lambda value: value not in slots.values(),
        lambda: draw_slot(kind, rng, held_out=style.held_out),
    )
