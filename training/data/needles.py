"""The mix of needles: what is put into a document together with the questions that it answers."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from training.data.assignments import make_assignments, make_chain
from training.data.clauses import make_clauses
from training.data.entities import KEY_SHAPES
from training.data.excerpts import make_excerpts, make_neighbours
from training.data.facts import Needle
from training.data.groups import (
    make_near_misses,
    make_pass_phrase,
    make_same_attribute,
    make_same_entity,
    make_shaped,
    make_single,
)
from training.data.inventories import make_inventory
from training.data.legends import make_legend
from training.data.lists import ListShape, make_list
from training.data.markdown_tables import make_table
from training.data.phrasing import StyleConfig
from training.data.scenes import make_scene
from training.data.timetables import make_timetable
from training.data.two_hops import HopShape, make_same_as, make_two_hop

_SHAPED_VALUES = ("uuid", "hash", "pin", "digits12", "url", "code", "hyphen", "email", "money")
_LONG_KEYS = ("uuid", "uuid", "hash", "code")
_Maker = Callable[[Random, StyleConfig, int], Needle]


def draw_needle(rng: Random, style: StyleConfig, room: int) -> Needle:
    """Draw a needle of any kind that may fit into about `room` tokens."""
    makers, weights = zip(*_MIX, strict=True)
    make: _Maker = rng.choices(makers, weights)[0]
    return make(rng, style, room)


def draw_size(rng: Random, most: int) -> int:
    """Draw 2 to `most`, uniform in the logarithm: small ones are common."""
    return int(2 * (max(most, 2) / 2) ** rng.random() + 0.5)


def _same_attribute(rng: Random, style: StyleConfig, room: int) -> Needle:
    return make_same_attribute(rng, style, draw_size(rng, min(64, room // 60)))


def _several(rng: Random, style: StyleConfig, room: int) -> Needle:
    size = rng.randint(3, 8 if room > 500 else 4)
    return make_same_attribute(rng, replace(style, extras=1.0), size)


def _same_entity(rng: Random, style: StyleConfig, room: int) -> Needle:
    size = rng.randint(2, min(12, 2 + room // 120))
    return make_same_entity(rng, style, size, alike=rng.random() < 0.25)


def _shaped(rng: Random, style: StyleConfig, room: int) -> Needle:
    shapes = _LONG_KEYS if rng.random() < 0.6 else tuple(KEY_SHAPES)
    key = rng.choice(shapes) if rng.random() < 0.75 else ""
    value = rng.choice(_SHAPED_VALUES) if rng.random() < 0.6 else ""
    size = draw_size(rng, min(24, room // 100))
    return make_shaped(rng, style, size, key, value, near=rng.choice((0.5, 0.8, 1.0)))


def _pass_phrase(rng: Random, style: StyleConfig, room: int) -> Needle:
    return make_pass_phrase(rng, style, rng.randint(1, 40 if room > 300 else 12))


def _two_hop(rng: Random, style: StyleConfig, room: int) -> Needle:
    if room <= 300:
        return make_two_hop(rng, style, HopShape(asked_alone=0.12))
    subjects = rng.randint(1, min(6, room // 120))
    shape = HopShape(
        subjects=subjects,
        firsts=rng.choice((1, subjects, subjects)),
        seconds=rng.choice((1, 1, 1, 2)),
        strays=rng.choice((0, 0, 1, 2)),
        asked_alone=0.12,
    )
    return make_two_hop(rng, style, shape)


def _list(rng: Random, style: StyleConfig, room: int) -> Needle:
    shape = ListShape(
        least=rng.choice((1, 2, 2, 3)),
        most=rng.choice((3, 4, 4, 6)),
        subjects=rng.choice((1, 1, 2, 3, 4)) if room > 700 else 1,
        scattered=0.45,
    )
    return make_list(rng, style, shape)


def _neighbours(rng: Random, style: StyleConfig, room: int) -> Needle:
    return make_neighbours(rng, style, rng.randint(2, min(16, 2 + room // 160)))


_MIX: tuple[tuple[_Maker, float], ...] = (
    (lambda rng, style, _: make_single(rng, style), 0.4),
    (_same_attribute, 0.05),
    (_several, 0.05),
    (_same_entity, 0.4),
    (_shaped, 0.26),
    (lambda rng, style, _: make_near_misses(rng, style), 0.14),
    (lambda rng, style, _: make_scene(rng, style), 0.18),
    (lambda rng, style, _: make_excerpts(rng, style), 1.6),
    (_neighbours, 0.26),
    (lambda rng, style, _: make_clauses(rng, style), 0.25),
    (lambda rng, style, _: make_timetable(rng, style), 0.12),
    (lambda rng, style, _: make_legend(rng, style), 0.05),
    (lambda rng, style, _: make_inventory(rng, style), 0.1),
    (_two_hop, 0.55),
    (lambda rng, style, _: make_same_as(rng, style), 0.02),
    (_pass_phrase, 0.15),
    (_list, 0.3),
    (lambda rng, style, _: make_assignments(rng, style), 0.05),
    (lambda rng, style, _: make_chain(rng, style), 0.14),
    (lambda rng, style, _: make_table(rng, style), 0.05),
)
