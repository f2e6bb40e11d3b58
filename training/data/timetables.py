"""Needles of timetables in prose (tables/timetables.txt): what departs, opens, begins or rings.

Beside a time of day stand a length of time, a number, a sum, a date and a person: each is asked for
by a question word of its own, and the others are near and wrong.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from training.data import values
from training.data.entities import draw_entity
from training.data.facts import REFUSAL, Chunk, Needle, Question, claim
from training.data.phrasing import StyleConfig, say_question, say_sentence
from training.data.split import draw_until
from training.data.templates import Field, draw_word, expand, read_records, texts_of, word_list
from training.data.text import join_words


@dataclass(frozen=True)
class Part:
    """One thing that can be told.

    Attributes:
        kind: the kind of its values (training.data.values).
        clauses: what is said of the subject, with a `|` behind the verb.
        questions: with {S} for the subject and {u} for the unit of a value that has one.
    """

    kind: str
    clauses: tuple[str, ...]
    questions: tuple[str, ...]


@dataclass(frozen=True)
class Sort:
    """What is spoken of: its names, and what can be told of it."""

    names: tuple[str, ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class _Entry:
    """One subject and what is told of it; `slots` are those of its wordings."""

    slots: dict[str, str]
    told: tuple[tuple[Part, str], ...]

    @property
    def name(self) -> str:
        return self.slots["S"]


_SLOT = re.compile(r"\{(adjective|place|site)\}")
_MOVABLE = ("at ", "on ", "in ", "until ", "every ")  # what begins so may stand before the subject
_LENGTHS = ("time", "duration")  # of two, a third can be reckoned


@cache
def sorts() -> tuple[Sort, ...]:
    """All sorts of subjects."""
    return tuple(map(_parse, read_records("timetables")))


def make_timetable(rng: Random, style: StyleConfig) -> Needle:
    """One to three subjects of a sort, each with two to four things told of it."""
    sort = rng.choice(sorts())
    entries = _draw_entries(sort, rng, style)
    questions = [question for entry in entries for question in _ask_all(entry, sort, rng, style)]
    if len(entries) > 1 and rng.random() < 0.5:
        chunks = [Chunk(" ".join(_tell_together(entries, rng, style)))]
    else:
        chunks = [Chunk(_tell(entry, entry.told, rng, style)) for entry in entries]
    return Needle(tuple(chunks), tuple(questions), claim(*(entry.name for entry in entries)))


def _draw_entries(sort: Sort, rng: Random, style: StyleConfig) -> list[_Entry]:
    """Subjects with different names and values; mostly they share what is told of them."""
    goods, people = draw_word("goods", rng), f"{draw_word('roles', rng)}s"
    first = _draw_parts(sort, rng)
    taken: set[str] = set()
    entries = []
    for _ in range(rng.choice((1, 2, 2, 3))):
        parts = first if rng.random() < 0.6 else _draw_parts(sort, rng)
        name = draw_until(lambda one: one not in taken, lambda: _draw_name(sort, rng, style))
        taken.add(name)
        told = tuple((part, _fresh_value(part, taken, rng, style)) for part in parts)
        entries.append(_Entry({"S": name, "g": goods, "w": people}, told))
    return entries


def _draw_parts(sort: Sort, rng: Random) -> list[Part]:
    """Two to four, a time of day among them."""
    times = [part for part in sort.parts if part.kind == "time"]
    first = rng.choice(times)
    others = [part for part in sort.parts if part is not first]
    return [first, *rng.sample(others, rng.randint(1, 3))]


def _draw_name(sort: Sort, rng: Random, style: StyleConfig) -> str:
    pattern = rng.choice(sort.names)
    makers = {
        "adjective": lambda: rng.choice(
            (*word_list("adjectives"), *(style.lexicon or word_list("common")))
        ),
        "place": lambda: values.draw("place", rng, held_out=style.held_out),
        "site": lambda: draw_entity("site", rng, held_out=style.held_out).name,
    }
    slots = {slot: makers[slot]() for slot in _SLOT.findall(pattern)}
    return expand(pattern, rng, slots)


def _fresh_value(part: Part, taken: set[str], rng: Random, style: StyleConfig) -> str:
    value = draw_until(lambda one: one not in taken, lambda: _value(part, rng, style))
    taken.add(value)
    return value


def _value(part: Part, rng: Random, style: StyleConfig) -> str:
    if part.kind == "time" and rng.random() < 0.5:
        return _exact_time(rng)
    return values.draw(part.kind, rng, held_out=style.held_out)


def _exact_time(rng: Random) -> str:
    """A time of day to the minute."""
    hour, minute = rng.randrange(24), rng.randrange(60)
    if rng.random() < 0.6:
        return f"{hour:02d}:{minute:02d}"
    return f"{(hour - 1) % 12 + 1}:{minute:02d} {'p.m.' if hour >= 12 else 'a.m.'}"


def _tell(entry: _Entry, told: Sequence[tuple[Part, str]], rng: Random, style: StyleConfig) -> str:
    """What is told of a subject, in one sentence or two, in any order."""
    said = [_clause(entry, part, value, rng) for part, value in told]
    rng.shuffle(said)
    (verb, rest), *others = said
    start = f"{entry.name} {verb} {rest}"
    if rest.startswith(_MOVABLE) and rng.random() < 0.25:
        start = f"{rest}, {entry.name} {verb}"
    more = [" ".join(clause) for clause in others]
    luck = rng.random()
    if not more:
        sentences = [start]
    elif luck < 0.35:
        sentences = [join_words([start, *more])]
    elif luck < 0.55:
        sentences = [start, f"it {join_words(more)}"]
    elif luck < 0.7:
        sentences = [f"{start}; it {join_words(more)}"]
    elif luck < 0.85:
        tail = f" and {join_words(more[1:])}" if more[1:] else ""
        sentences = [f"{entry.name}, which {more[0]}, {verb} {rest}{tail}"]
    else:
        sentences = [f"{start}, {rng.choice(('while', 'and', 'but'))} it {join_words(more)}"]
    return " ".join(say_sentence(sentence, rng, style) for sentence in sentences)


def _tell_together(entries: Sequence[_Entry], rng: Random, style: StyleConfig) -> list[str]:
    """Sentences about all subjects: first what is told of each, if anything is, by one verb."""
    part = entries[0].told[0][0]
    if any(entry.told[0][0] is not part for entry in entries):
        return [_tell(entry, entry.told, rng, style) for entry in entries]
    pattern = rng.choice(part.clauses)
    said: list[str] = []
    for entry in entries:
        clause = expand(pattern, rng, entry.slots | {"V": entry.told[0][1]})
        verb, _, rest = clause.partition("|")
        said.append(f"{entry.name} {rest}" if said else f"{entry.name} {verb} {rest}")
    return [
        say_sentence(join_words(said), rng, style),
        *(_tell(entry, entry.told[1:], rng, style) for entry in entries),
    ]


def _clause(entry: _Entry, part: Part, value: str, rng: Random) -> tuple[str, str]:
    text = expand(rng.choice(part.clauses), rng, entry.slots | {"V": value})
    verb, _, rest = text.partition("|")
    return verb, rest


def _ask_all(entry: _Entry, sort: Sort, rng: Random, style: StyleConfig) -> list[Question]:
    """For the time of day and one or two others, and now and then for what is not told."""
    first, *others = entry.told
    asked = [first, *rng.sample(others, rng.randint(0, min(2, len(others))))]
    questions = [
        Question(_ask(entry, part, value, rng, style), value, "timetable") for part, value in asked
    ]
    if rng.random() < style.refusals:
        told = [part for part, _ in entry.told]
        left = [part for part in sort.parts if part not in told and not _is_implied(part, told)]
        if left:
            text = _ask(entry, rng.choice(left), "", rng, style)
            questions.append(Question(text, REFUSAL, "unanswerable"))
    return questions


def _is_implied(part: Part, told: Sequence[Part]) -> bool:
    """Whether what is told may be taken for it, or it can be reckoned."""
    kinds = [one.kind for one in told]
    is_reckoned = part.kind in _LENGTHS and sum(kind in _LENGTHS for kind in kinds) > 1
    return is_reckoned or (part.kind == "time" and "date" in kinds)


def _ask(entry: _Entry, part: Part, value: str, rng: Random, style: StyleConfig) -> str:
    unit = values.counted_unit(value)
    fitting = [text for text in part.questions if unit or "{u}" not in text]
    text = expand(rng.choice(fitting), rng, entry.slots | {"u": unit})
    return say_question(text, rng, style)


def _parse(record: Sequence[Field]) -> Sort:
    """Read the tags T, V, S and Q; a part begins with its V."""
    names, (first, *rest) = texts_of(record, "T"), [field for field in record if field[0] != "T"]
    parts = [[first]]
    for field in rest:
        if field[0] == "V":
            parts.append([])
        parts[-1].append(field)
    return Sort(names, tuple(map(_parse_part, parts)))


def _parse_part(fields: Sequence[Field]) -> Part:
    (kind,) = texts_of(fields, "V")
    return Part(kind, texts_of(fields, "S"), texts_of(fields, "Q"))
