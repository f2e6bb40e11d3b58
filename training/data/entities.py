"""Who or what a fact is about."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from training.data import values
from training.data.split import draw_name, is_held_out
from training.data.templates import draw_word, word_list

KINDS = ("person", "body", "site", "thing", "project", "service")
ENTITY_KINDS = {"object": "thing", "event": "project", "site": "site", "service": "service"}


@dataclass(frozen=True)
class Entity:
    """A subject: its kind (one of KINDS or `key`) and its name as it stands inside a sentence."""

    kind: str
    name: str


def draw_entity(kind: str, rng: Random, *, held_out: bool) -> Entity:
    """Draw a subject from the wanted side of the split."""
    return Entity(kind, draw_name(lambda: _MAKERS[kind](rng), held_out=held_out))


def draw_slot(kind: str, rng: Random, *, held_out: bool) -> str:
    """Draw what fills a slot of a kind of ENTITY_KINDS or of training.data.values.

    Raises: KeyError for an unknown kind.
    """
    if kind in ENTITY_KINDS:
        return draw_entity(ENTITY_KINDS[kind], rng, held_out=held_out).name
    return values.draw(kind, rng, held_out=held_out)


def draw_key(shape: str, rng: Random, *, held_out: bool) -> Entity:
    """Draw a key of one of KEY_SHAPES.

    Raises: KeyError for an unknown shape.
    """
    return Entity("key", draw_name(lambda: KEY_SHAPES[shape](rng), held_out=held_out))


def draw_rival(entity: Entity, rng: Random, *, held_out: bool) -> Entity:
    """Draw a subject whose name differs from another's in one word or character only."""
    for _ in range(20):
        name = _near(entity, rng)
        if name != entity.name and is_held_out(name) == held_out:
            return Entity(entity.kind, name)
    return draw_entity(entity.kind, rng, held_out=held_out)


def _near(entity: Entity, rng: Random) -> str:
    name = entity.name
    mark = "-" if "-" in name and " " not in name else " "
    if any(character.isdigit() for character in name) and rng.random() < 0.6:
        return _other_character(name, rng)
    if entity.kind == "key" and (_HEXADECIMAL.fullmatch(name) or mark not in name):
        return _other_character(name, rng)
    parts = name.split(mark)
    first = 1 if parts[0] in ("the", "a") and len(parts) > 1 else 0
    place = rng.randrange(first, len(parts))
    if entity.kind == "key":
        return mark.join([*parts[:place], draw_word("common", rng), *parts[place + 1 :]])
    others = _MAKERS[entity.kind](rng).split(mark)
    if len(others) != len(parts):
        return name
    return mark.join([*parts[:place], others[place], *parts[place + 1 :]])


def _other_character(name: str, rng: Random) -> str:
    """Exchange one letter or digit for another of its sort."""
    places = [place for place, character in enumerate(name) if character.isalnum()]
    place = rng.choice(places)
    old = name[place]
    if old.isdigit():
        pool = "0123456789"
    elif _HEXADECIMAL.fullmatch(name):
        pool = "abcdef"
    else:
        pool = "abdefgiklmnoprstuvz" if old.islower() else "ABCDEFGHKLMNPRSTUVXZ"
    return name[:place] + rng.choice(pool) + name[place + 1 :]


_HEXADECIMAL = re.compile(r"[0-9a-f-]{32,}")


def _described(rng: Random, pool: tuple[str, ...], bare: float = 0.1) -> str:
    noun, luck = rng.choice(pool), rng.random()
    if luck < bare:
        return f"the {noun}"
    if luck < 0.55:
        return f"the {draw_word('adjectives', rng)} {noun}"
    if luck < 0.75:
        return f"the {values.surname(rng)} {noun}"
    if luck < 0.85:
        return f"the {noun} {rng.choice(('at', 'in', 'of', 'from'))} {values.surname(rng)}"
    if luck < 0.96:
        return _placed(rng, noun)
    return f"{noun} {values.code(rng)}"


def _placed(rng: Random, noun: str) -> str:
    adjective, thing = draw_word("adjectives", rng), draw_word("things", rng)
    return rng.choice(
        (
            f"the {adjective} {noun} near the {draw_word('sites', rng)}",
            f"the {noun} with the {adjective} {thing}",
            f"the {noun} of the {draw_word('roles', rng)}",
            f"the {noun} for the {draw_word('goods', rng)}",
            f"the {draw_word('common', rng)} {noun}",
            f"the {noun} {rng.choice(('on', 'under', 'behind'))} the {draw_word('sites', rng)}",
            f"the {draw_word('common', rng)} {noun} to {values.place(rng)}",
            f"a {noun} with a {adjective} {thing}",
        )
    )


def _body(rng: Random) -> str:
    luck = rng.random()
    if luck < 0.35:
        return values.organisation(rng)
    if luck < 0.45:
        return f"{values.made_up(rng)} {rng.choice(('Ltd', 'Inc.', 'Group', 'Systems', 'Foods'))}"
    return _described(rng, word_list("bodies"))


def _site(rng: Random) -> str:
    return values.place(rng) if rng.random() < 0.25 else _described(rng, word_list("sites"))


def _thing(rng: Random) -> str:
    luck = rng.random()
    if luck < 0.12:
        return f"the {values.made_up(rng)} {number_word(rng)}"
    if luck < 0.2:
        return f"the ship {values.made_up(rng)}"
    return _described(rng, word_list("things"))


def number_word(rng: Random) -> str:
    """What follows a brand: a number, a Greek letter or a size."""
    return rng.choice((str(rng.randint(1, 900)), draw_word("greek", rng).title(), "Pro", "Mini"))


def _project(rng: Random) -> str:
    luck = rng.random()
    if luck < 0.15:
        return f"Operation {draw_word('common', rng).title()} {draw_word('common', rng).title()}"
    if luck < 0.3:
        return f"Project {values.made_up(rng)}"
    return _described(rng, word_list("projects"))


def _service(rng: Random) -> str:
    noun, luck = draw_word("services", rng), rng.random()
    if luck < 0.35:
        return f"the {noun}"
    return f"the {draw_word('adjectives', rng)} {noun}"


def _key(rng: Random) -> str:
    return rng.choice(tuple(KEY_SHAPES.values()))(rng)


KEY_SHAPES: dict[str, Callable[[Random], str]] = {
    "word pair": values.word_pair,
    "hyphenated": values.hyphenated,
    "code": values.code,
    "uuid": values.uuid,
    "word": lambda rng: draw_word("common", rng),
    "number": lambda rng: str(values.number(rng, 12)),
    "snake": lambda rng: f"{draw_word('code nouns', rng)}_{draw_word('code tails', rng)}",
    "item": lambda rng: f"{draw_word('code nouns', rng)}-{values.number(rng, 3)}",
    "thing": lambda rng: f"{draw_word('things', rng)} {values.number(rng, 3)}",
    "letter": lambda rng: f"{draw_word('greek', rng).title()} {values.number(rng, 2)}",
    "three words": lambda rng: " ".join(rng.sample(word_list("common"), 3)),
    "hash": lambda rng: values.draw("hash", rng),
    "email": values.email,
    "url": values.url,
    "date": values.date,
    "money": values.money,
    "measure": values.measure,
    "phrase": values.phrase,
    "person": values.person,
    "place": values.place,
    "brand": values.made_up,
}
_MAKERS: dict[str, Callable[[Random], str]] = {
    "person": values.person,
    "body": _body,
    "site": _site,
    "thing": _thing,
    "project": _project,
    "service": _service,
    "key": _key,
}
