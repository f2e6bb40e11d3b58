"""Circumstances of an action: how often, when, where, with what, and how they are asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from training.data import values
from training.data.phrasing import StyleConfig
from training.data.templates import draw_word, template_list


@dataclass(frozen=True)
class Circumstance:
    """How, when, where or how much.

    Attributes:
        text: as it stands in a sentence.
        asked: question words, with a `|` before what stays at the end of the question.
        answer: what stands for it in the text.
    """

    text: str
    asked: tuple[str, ...]
    answer: str


def draw_stuff(rng: Random) -> tuple[str, str]:
    """A sort of stuff and a brand of it: oil, Carovix 12."""
    name = f"{values.made_up(rng)}{rng.choice(('', f' {values.number(rng, 3)}'))}"
    return draw_word("stuffs", rng), name


def _how_often(rng: Random, style: StyleConfig) -> Circumstance:
    del style
    value = values.duration(rng)
    return Circumstance(
        f"{rng.choice(('every', 'once in', 'each time after'))} {value}",
        ("how often", "at what intervals", "every how many {u}", "after how many {u} each time"),
        value,
    )


def _how_long(rng: Random, style: StyleConfig) -> Circumstance:
    del style
    value = values.duration(rng)
    text = rng.choice(("for {V}", "for at least {V}", "for {V} at most", "for no less than {V}"))
    asked = ("for how long", "how long", "for how many {u}", "for what length of time")
    return Circumstance(text.replace("{V}", value), asked, value)


def _how_soon(rng: Random, style: StyleConfig) -> Circumstance:
    del style
    value = values.duration(rng)
    text = rng.choice(("within {V}", "in {V}", "in less than {V}", "{V} in advance"))
    asked = ("within what time", "how soon", "within how many {u}", "in how many {u}")
    return Circumstance(text.replace("{V}", value), asked, value)


def _at_what_time(rng: Random, style: StyleConfig) -> Circumstance:
    del style
    kind = rng.choice(("time", "date", "weekday", "month"))
    value, word = values.draw(kind, rng), rng.choice(("before", "after", "from", "until"))
    plain = {"time": "at", "date": "on", "weekday": "on", "month": "in"}[kind]
    exact = {"time": "at what time", "date": "on what date", "weekday": "on which day",
             "month": "in which month"}[kind]  # fmt: skip
    if rng.random() < 0.7:
        return Circumstance(f"{plain} {value}", ("when", exact, "when exactly"), value)
    return Circumstance(f"{word} {value}", (f"{word} when", f"{word} what time", "when"), value)


def _where(rng: Random, style: StyleConfig) -> Circumstance:
    kind = rng.choice(("spot", "site", "room", "place"))
    if kind == "spot":
        value = values.spot(rng)
        return Circumstance(value, ("where", "in what place", "where exactly"), value)
    noun = f"the {draw_word('adjectives', rng)} {draw_word('sites', rng)}"
    value = noun if kind == "site" else values.draw(kind, rng, held_out=style.held_out)
    return Circumstance(f"in {value}", ("where", "in which place", "in what", "what|in"), value)


def _with_what(rng: Random, style: StyleConfig) -> Circumstance:
    del style
    value = draw_word("means", rng)
    asked = ("with what", "what|with", "by what means", "how", "what is used:")
    return Circumstance(f"with {value}", asked, value)


def _with_which(rng: Random, style: StyleConfig) -> Circumstance:
    """A stuff by its brand, which the question calls by its sort."""
    del style
    stuff, value = draw_stuff(rng)
    head = draw_word("adjectives", rng)
    text = rng.choice((
        f"with {value}, a {head} {stuff},", f"with {value} {stuff}",
        f"with {stuff} of the sort {value}", f"with the {stuff} {value}",
    ))  # fmt: skip
    asked = (
        f"with which {stuff}", f"with what {stuff}", f"which {stuff}|with", f"what {stuff}|with",
    )  # fmt: skip
    return Circumstance(text, asked, value)


def _measure(rng: Random, style: StyleConfig) -> str:
    """A number with a unit, now and then one that nobody has heard of: 12 ember-metres."""
    value = values.measure(rng)
    if not style.lexicon or rng.random() < 0.6:
        return value
    amount, _, unit = value.partition(" ")
    strange = rng.choice(style.lexicon)
    return f"{amount} {rng.choice((f'{strange}-{unit}', f'{strange}s'))}"


def _how_much(rng: Random, style: StyleConfig) -> Circumstance:
    value, word = _measure(rng, style), rng.choice(("by", "to", "with", "at", "up to", "under"))
    tops = ("at most ", "no more than ", "exactly ", "about ", "", "", "", "")
    asked = (f"{word} how many {{u}}", f"{word} what", f"{word} how much", f"how many {{u}}|{word}")
    return Circumstance(f"{word} {rng.choice(tops)}{value}", asked, value)


def _at_which_reading(rng: Random, style: StyleConfig) -> Circumstance:
    gauge, sign = (
        rng.choice(template_list("clauses", "gauges")),
        rng.choice(template_list("clauses", "signs of gauges")),
    )
    owner = rng.choice((f"{draw_word('common', rng)} {draw_word('things', rng)}", ""))
    name = f"the {owner} {gauge}".replace("  ", " ")
    value = rng.choice((lambda _: _measure(rng, style), values.percent, values.integer))(rng)
    word = rng.choice(("when", "once", "as soon as", "if", "only if", "whenever"))
    asked = (
        f"at which reading of {name}", f"at what value on {name}", f"at what {gauge} reading",
        f"when, that is, at what reading of {name},", f"at how many {{u}} on {name}",
    )  # fmt: skip
    return Circumstance(f"{word} {name} {sign} {value}", asked, value)


def _how_many_times(rng: Random, style: StyleConfig) -> Circumstance:
    del style
    value = rng.choice((draw_word("small numbers", rng), str(values.number(rng, 2) + 1)))
    noun = rng.choice(("times", "turns", "strokes", "rounds", "steps", "pieces", "layers"))
    word = "" if noun == "times" else "in "
    asked = (f"{word}how many {noun}", f"how many {noun}")
    return Circumstance(f"{word}{value} {noun}", asked, value)


def _for_whom(rng: Random, style: StyleConfig) -> Circumstance:
    value = values.draw("person", rng, held_out=style.held_out)
    word = rng.choice(("for", "with", "on behalf of", "under", "near"))
    asked = (f"{word} whom", f"{word} which person", f"who|{word}", f"{word} who")
    return Circumstance(f"{word} {value}", asked, value)


def _for_what_sum(rng: Random, style: StyleConfig) -> Circumstance:
    del style
    value, word = values.money(rng), rng.choice(("for", "for less than", "at a price of"))
    asked = ("for how much", "for what sum", "for how much money", "at what price")
    return Circumstance(f"{word} {value}", asked, value)


CIRCUMSTANCES: dict[str, Callable[[Random, StyleConfig], Circumstance]] = {
    "often": _how_often, "long": _how_long, "soon": _how_soon, "time": _at_what_time,
    "where": _where, "means": _with_what, "stuff": _with_which, "measure": _how_much,
    "reading": _at_which_reading, "times": _how_many_times, "person": _for_whom,
    "sum": _for_what_sum,
}  # fmt: skip
