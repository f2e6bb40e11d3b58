"""The mix of plants: what is put into a document together with the questions that it answers."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from training.data.chains import plant_chain, plant_config
from training.data.entities import KEY_SHAPES
from training.data.excerpts.plant import plant_excerpts
from training.data.excerpts.theme import plant_theme
from training.data.facts import Chunk, Fact, Plant, Question
from training.data.groups import (
    plant_crowd,
    plant_near_misses,
    plant_pass_phrase,
    plant_portrait,
    plant_shaped,
    plant_single,
)
from training.data.hops import HopShape, plant_same_as, plant_two_hop
from training.data.inventories import plant_inventory
from training.data.legends import plant_legend
from training.data.predicates import plant_predicates
from training.data.rules import plant_scene
from training.data.several import ListShape, plant_list
from training.data.speech import Voice
from training.data.tables import plant_table
from training.data.timetables import plant_timetable
from training.data.wordings import REFUSAL

_SHAPED_VALUES = ("uuid", "hash", "pin", "digits12", "url", "code", "hyphen", "email", "money")
_LONG_KEYS = ("uuid", "uuid", "hash", "code")
_Maker = Callable[[Random, Voice, int], Plant]


def plant_any(rng: Random, voice: Voice, room: int) -> Plant:
    """Draw a plant of any kind that may fit into about `room` tokens."""
    makers, weights = zip(*_MIX, strict=True)
    make: _Maker = rng.choices(makers, weights)[0]
    return make(rng, voice, room)


def crowd_size(rng: Random, most: int) -> int:
    """Draw 2 to `most`, uniform in the logarithm: small crowds are common."""
    return int(2 * (max(most, 2) / 2) ** rng.random() + 0.5)


def _crowd(rng: Random, voice: Voice, room: int) -> Plant:
    return plant_crowd(rng, voice, crowd_size(rng, min(64, room // 60)))


def _several(rng: Random, voice: Voice, room: int) -> Plant:
    size = rng.randint(3, 8 if room > 500 else 4)
    return plant_crowd(rng, replace(voice, extras=1.0), size)


def _portrait(rng: Random, voice: Voice, room: int) -> Plant:
    size = rng.randint(2, min(12, 2 + room // 120))
    return plant_portrait(rng, voice, size, alike=rng.random() < 0.25)


def _shaped(rng: Random, voice: Voice, room: int) -> Plant:
    shapes = _LONG_KEYS if rng.random() < 0.6 else tuple(KEY_SHAPES)
    key = rng.choice(shapes) if rng.random() < 0.75 else ""
    value = rng.choice(_SHAPED_VALUES) if rng.random() < 0.6 else ""
    size = crowd_size(rng, min(24, room // 100))
    return plant_shaped(rng, voice, size, key, value, near=rng.choice((0.5, 0.8, 1.0)))


def _pass_phrase(rng: Random, voice: Voice, room: int) -> Plant:
    return plant_pass_phrase(rng, voice, rng.randint(1, 40 if room > 300 else 12))


def _two_hop(rng: Random, voice: Voice, room: int) -> Plant:
    if room <= 300:
        return plant_two_hop(rng, voice, HopShape(asked_alone=0.12))
    subjects = rng.randint(1, min(6, room // 120))
    shape = HopShape(
        subjects=subjects,
        firsts=rng.choice((1, subjects, subjects)),
        seconds=rng.choice((1, 1, 1, 2)),
        strays=rng.choice((0, 0, 1, 2)),
        asked_alone=0.12,
    )
    return plant_two_hop(rng, voice, shape)


def _list(rng: Random, voice: Voice, room: int) -> Plant:
    shape = ListShape(
        least=rng.choice((1, 2, 2, 3)),
        most=rng.choice((3, 4, 4, 6)),
        subjects=rng.choice((1, 1, 2, 3, 4)) if room > 700 else 1,
        scattered=0.45,
    )
    return plant_list(rng, voice, shape)


def _theme(rng: Random, voice: Voice, room: int) -> Plant:
    return plant_theme(rng, voice, rng.randint(2, min(16, 2 + room // 160)))


_MIX: tuple[tuple[_Maker, float], ...] = (
    (lambda rng, voice, _: plant_single(rng, voice), 0.4),
    (_crowd, 0.05),
    (_several, 0.05),
    (_portrait, 0.4),
    (_shaped, 0.26),
    (lambda rng, voice, _: plant_near_misses(rng, voice), 0.14),
    (lambda rng, voice, _: plant_scene(rng, voice), 0.18),
    (lambda rng, voice, _: plant_excerpts(rng, voice), 1.6),
    (_theme, 0.26),
    (lambda rng, voice, _: plant_predicates(rng, voice), 0.25),
    (lambda rng, voice, _: plant_timetable(rng, voice), 0.12),
    (lambda rng, voice, _: plant_legend(rng, voice), 0.05),
    (lambda rng, voice, _: plant_inventory(rng, voice), 0.1),
    (_two_hop, 0.55),
    (lambda rng, voice, _: plant_same_as(rng, voice), 0.02),
    (_pass_phrase, 0.15),
    (_list, 0.3),
    (lambda rng, voice, _: plant_config(rng, voice), 0.05),
    (lambda rng, voice, _: plant_chain(rng, voice), 0.14),
    (lambda rng, voice, _: plant_table(rng, voice), 0.05),
)

__all__ = [
    "REFUSAL",
    "Chunk",
    "Fact",
    "HopShape",
    "ListShape",
    "Plant",
    "Question",
    "crowd_size",
    "plant_any",
    "plant_chain",
    "plant_config",
    "plant_crowd",
    "plant_excerpts",
    "plant_inventory",
    "plant_legend",
    "plant_list",
    "plant_near_misses",
    "plant_pass_phrase",
    "plant_portrait",
    "plant_predicates",
    "plant_same_as",
    "plant_scene",
    "plant_shaped",
    "plant_single",
    "plant_table",
    "plant_theme",
    "plant_timetable",
    "plant_two_hop",
]
