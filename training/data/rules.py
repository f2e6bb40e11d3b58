"""Plants of rules and events: sentences with several slots, each of which can be asked for."""

import re
from random import Random

from training.data import values, words
from training.data.draws import draw_until
from training.data.entities import Entity, draw_entity
from training.data.facts import Chunk, Plant, Question, claim, draw_attribute, draw_kind, refuse
from training.data.scenes import Scene, scenes
from training.data.slots import ENTITY_KINDS, draw_slot
from training.data.speech import Voice, say_question, say_sentence
from training.data.template import expand, slots_of
from training.data.wordings import REFUSAL


def plant_scene(rng: Random, voice: Voice) -> Plant:
    """A rule or an event of several slots."""
    scene = rng.choice(scenes())
    slots = _fill_all(scene, rng, voice)
    statement = rng.choice(scene.statements)
    sentence = say_sentence(expand(statement, rng, slots), rng, voice)
    founded = [q for q in scene.questions if {q[1], *_bases(q[0])} <= _bases(statement)]
    asked = rng.sample(founded, min(len(founded), rng.randint(1, 3)))
    questions = [
        Question(
            _worded(expand(text, rng, slots), slots[answer], rng, voice), slots[answer], "scene"
        )
        for text, answer in asked
    ]
    if rng.random() < voice.refusals:
        questions.append(_missing_from(scene, slots, rng, voice))
    is_block = rng.random() < 0.25
    return Plant((Chunk(sentence, is_block),), tuple(questions), _claims(scene, slots))


def _worded(text: str, answer: str, rng: Random, voice: Voice) -> str:
    """A question as it is asked: now and then for how many days instead of for how long."""
    unit = values.counted_unit(answer)
    if unit in words.TIME_UNITS and rng.random() < 0.25:
        text = _HOW_LONG.sub(f"ow many {unit}", text, count=1)
    elif unit and rng.random() < 0.5:
        text = _HOW_STRONG.sub(f"how many {unit}", text, count=1)
    return say_question(text, rng, voice)


_HOW_STRONG = re.compile(r"(?<=t |h )wh(?:at|ich) (?:force|measure|temperature)\b")
_HOW_LONG = re.compile(r"(?<=\b[Hh])ow (?:long|soon|far|much time)\b")


def _claims(scene: Scene, slots: dict[str, str]) -> frozenset[str]:
    """Names anywhere, and what the questions mention in scenes of this kind."""
    names = [slots[slot] for slot, kind in scene.slots.items() if kind in _SUBJECT_SLOTS]
    asked = {base for text, _ in scene.questions for base in _bases(text)}
    first = scene.statements[0]
    return claim(*names, *(f"{first} {slots[slot]}" for slot in asked)) or claim(first)


def _missing_from(scene: Scene, slots: dict[str, str], rng: Random, voice: Voice) -> Question:
    """Ask for something else about one who is in the scene, or the same about others."""
    subjects = [name for name, kind in scene.slots.items() if kind in _SUBJECT_SLOTS]
    telling = [text for text, _ in scene.questions if _is_telling(text, scene)]
    if subjects and (not telling or rng.random() < 0.5):
        name = rng.choice(subjects)
        entity = Entity(_SUBJECT_SLOTS[scene.slots[name]], slots[name])
        unsaid = draw_until(
            lambda one: one.value not in scene.slots.values(),
            lambda: draw_attribute(entity.kind, rng, voice),
        )
        return refuse(entity, unsaid, rng, voice)
    other = _fill_all(scene, rng, voice)
    if not telling:
        entity = draw_entity(draw_kind(rng), rng, held_out=voice.held_out)
        return refuse(entity, draw_attribute(entity.kind, rng, voice), rng, voice)
    text = rng.choice(telling)
    return Question(say_question(expand(text, rng, other), rng, voice), REFUSAL, "unanswerable")


def _is_telling(question: str, scene: Scene) -> bool:
    """Whether the question names someone or something that hardly another scene shares."""
    return any(scene.slots[base] in _TELLING_KINDS for base in _bases(question))


def _bases(template: str) -> set[str]:
    """Names of slots; the forms of a verb count as the verb."""
    return {name.split("_")[0] for name in slots_of(template)}


def _fill_all(scene: Scene, rng: Random, voice: Voice) -> dict[str, str]:
    slots: dict[str, str] = {}
    for name, kind in scene.slots.items():
        slots[name] = _fill_otherwise(kind, slots, rng, voice)
    for name, kind in scene.slots.items():
        if kind == "verb":
            slots[f"{name}_ed"], slots[f"{name}_ing"] = words.VERBS[slots[name]]
    return slots


def _fill_otherwise(kind: str, slots: dict[str, str], rng: Random, voice: Voice) -> str:
    """A value that no slot has: two of the same would make a question ambiguous."""
    return draw_until(
        lambda value: value not in slots.values(), lambda: draw_slot(kind, rng, voice)
    )


_SUBJECT_SLOTS = ENTITY_KINDS | {"person": "person", "org": "body", "place": "site"}
_TELLING_KINDS = frozenset(_SUBJECT_SLOTS) | {"damaged"}
