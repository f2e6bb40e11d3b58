"""Needles of legends: signs and what they mean, one after another; asked for in both directions."""

from random import Random

from training.data import values
from training.data.facts import Chunk, Needle, Question, claim
from training.data.phrasing import StyleConfig, say_question
from training.data.templates import draw_word, template_list, word_list
from training.data.text import capitalise
from training.data.verbs import verb_of


def make_legend(rng: Random, style: StyleConfig) -> Needle:
    """Two to six signs of one sort with their meanings, in a paragraph or in lines."""
    make = rng.choice((_sound, _light, values.code))
    count = rng.randint(2, 6)
    signs = list(dict.fromkeys(make(rng) for _ in range(count)))
    meanings = list(dict.fromkeys(_meaning(rng, style) for _ in signs))
    rows = list(zip(signs, meanings, strict=False))
    mark, joint = _draw("marks", rng), rng.choice((". ", "; ", "\n", "\n- "))
    is_block = "\n" in joint
    if joint != "; ":
        rows = [(capitalise(sign), meaning) for sign, meaning in rows]
    lines = [f"{sign}{mark}{meaning}" for sign, meaning in rows]
    text = f"{'- ' if joint.endswith('- ') else ''}{joint.join(lines)}"
    device, is_named = _draw("devices", rng), rng.random() < 0.5
    if is_named:
        head = _draw("heads", rng).replace("{D}", capitalise(device)).replace("{d}", device)
        text = f"{head.rstrip() if is_block else head}{chr(10) if is_block else ''}{text}"
    text = f"{text}\n" if is_block else f"{capitalise(text)}."
    asked = rng.sample(rows, min(len(rows), 3))
    source = device if is_named or rng.random() < 0.2 else ""
    questions = [_ask(*row, source, rng, style) for row in asked]
    return Needle((Chunk(text, is_block),), tuple(questions), claim(*signs, *meanings))


def _ask(sign: str, meaning: str, device: str, rng: Random, style: StyleConfig) -> Question:
    """Ask for the meaning or the sign; for the sign of a device, if there is one."""
    is_forward = rng.random() < 0.4
    asked = _list("questions for meanings" if is_forward else "questions for signs")
    if device and not is_forward:
        asked += _list("questions for signs of a device")
    pattern = rng.choice(asked)
    pattern = pattern.replace("{S}", sign).replace("{M}", meaning).replace("{D}", device)
    text = say_question(capitalise(pattern), rng, style)
    return Question(text, meaning if is_forward else sign, "legend")


def _sound(rng: Random) -> str:
    count, signal = rng.choice((*word_list("small numbers")[:6], "one")), _draw("signals", rng)
    head, mark, rest = signal.partition(" ")
    plural = head if count == "one" else f"{head}s"
    text = f"{count} {_draw('lengths', rng)} {plural}{mark}{rest}"
    if rng.random() < 0.3:
        text += f" and {rng.choice(('one', 'two', 'three'))} {_draw('lengths', rng)}"
    return text


def _light(rng: Random) -> str:
    return f"the {draw_word('colours', rng)} {_draw('lights', rng)}"


def _meaning(rng: Random, style: StyleConfig) -> str:
    pool = style.lexicon if style.lexicon and rng.random() < 0.5 else word_list("common")
    noun = f"the {rng.choice(pool)} {draw_word('things', rng)}"
    done = verb_of(draw_word("actions", rng)).participle
    return rng.choice(
        (
            f"{noun} is {draw_word('defects', rng)}",
            f"{noun} has been {done}",
            f"{noun} must be {done}",
            f"{noun} has {rng.choice(('failed', 'stopped', 'come loose', 'overheated', 'tilted'))}",
            f"{draw_word('roles', rng)} wanted at {noun}",
        )
    )


def _draw(name: str, rng: Random) -> str:
    return rng.choice(_list(name))


def _list(name: str) -> tuple[str, ...]:
    return template_list("needles", f"legend: {name}")
