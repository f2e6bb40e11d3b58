"""Needles of assignments: configuration lines, and chains of variables such as `x = 5; y = x`."""

from dataclasses import dataclass
from itertools import pairwise
from random import Random

from training.data import values
from training.data.facts import REFUSAL, Chunk, Needle, Question, claim
from training.data.phrasing import StyleConfig, choose, say_question
from training.data.split import draw_until
from training.data.templates import draw_word, expand, template_list, word_list
from training.data.text import capitalise

_VALUE_KINDS = (
    "unitless", "int", "bool", "url", "version", "code", "word", "hyphen", "pin", "email", "uuid",
    "hash", "measure",
)  # fmt: skip


@dataclass(frozen=True)
class ConfigBlock:
    """Lines of text and what they say.

    Attributes:
        values: what each key is set to.
        chained: a key that refers to another one, its value, and the key referred to.
        missing: a key that is not set.
    """

    text: str
    values: dict[str, str]
    chained: tuple[str, str, str] | None
    missing: str


def make_assignments(rng: Random, style: StyleConfig) -> Needle:
    """Assignments in the syntax of a configuration file, some of them chained."""
    block = draw_config_block(rng)
    asked = rng.sample(sorted(block.values), min(len(block.values), rng.randint(1, 6)))
    questions = [
        Question(_ask_for_value(key, rng, style), block.values[key], "assignment") for key in asked
    ]
    if block.chained:
        key, value, target = block.chained
        questions.append(Question(_ask_for_value(key, rng, style), value, "chain"))
        if rng.random() < 0.5:
            questions.append(Question(_ask_for_value(target, rng, style), value, "assignment"))
    if rng.random() < style.refusals:
        text = _ask_for_value(block.missing, rng, style)
        questions.append(Question(text, REFUSAL, "unanswerable"))
    chunk = Chunk(block.text, is_block=True)
    return Needle((chunk,), tuple(questions), claim(*block.values, block.missing))


def make_chain(rng: Random, style: StyleConfig) -> Needle:
    """One to three chains of variables in one notation; every variable is asked for."""
    notation = (
        rng.randrange(len(template_list("assignments", "first of a chain")))
        if rng.random() < 0.8
        else None
    )
    chains = [_chain(rng) for _ in range(rng.choice((1, 2, 2, 3)))]
    names: set[str] = set()
    lines: list[str] = []
    questions: list[Question] = []
    for keys, value in chains:
        if names & set(keys):
            continue
        names |= set(keys)
        lines += _lines(keys, value, notation, rng)
        questions += _questions(keys, value, rng, style)
    missing = draw_line_key(rng)
    if missing not in names and rng.random() < style.refusals:
        names.add(missing)
        text = _ask_for_value(missing, rng, style)
        questions.append(Question(text, REFUSAL, "unanswerable"))
    return Needle(_chunks(lines, rng), tuple(questions), claim(*names))


def _chain(rng: Random) -> tuple[list[str], str]:
    """Two to four variables, each defined by the one before, and the first one's value."""
    length = rng.choices((2, 3, 4), (6, 3, 1))[0]
    make = rng.choice((_letter, _word, draw_line_key, draw_line_key))
    keys: list[str] = []
    for _ in range(length):
        keys.append(draw_until(lambda key: key not in keys, lambda: make(rng)))
    return keys, values.draw(rng.choice(_VALUE_KINDS), rng)


def _letter(rng: Random) -> str:
    return rng.choice("bcdefghjkmnpqrstuvwxyz") + rng.choice(("", "", "1", "2", "3", "_0"))


def _word(rng: Random) -> str:
    return rng.choice(word_list("code nouns") + word_list("greek"))


def _lines(keys: list[str], value: str, notation: int | None, rng: Random) -> list[str]:
    lines = [_say("first of a chain", notation, rng, {"K": keys[0], "V": value})]
    for target, key in pairwise(keys):
        lines.append(_say("links of a chain", notation, rng, {"K": key, "T": target}))
    return lines if rng.random() < 0.6 else lines[::-1]


def _say(section: str, notation: int | None, rng: Random, slots: dict[str, str]) -> str:
    pool = template_list("assignments", section)
    return expand(pool[rng.randrange(len(pool)) if notation is None else notation], rng, slots)


def _questions(keys: list[str], value: str, rng: Random, style: StyleConfig) -> list[Question]:
    found = []
    for place, key in enumerate(keys):
        kind = ("assignment", "chain", "long chain", "long chain")[place]
        found.append(Question(_ask_for_value(key, rng, style), value, kind))
    place = rng.randrange(1, len(keys))
    if rng.random() < 0.3:
        text = _ask_for_reference(keys[place], rng, style)
        found.append(Question(text, keys[place - 1], "reference"))
    return found


def _chunks(lines: list[str], rng: Random) -> tuple[Chunk, ...]:
    """Side by side, or each line for itself."""
    is_prose = all(line.endswith(".") for line in lines)
    if rng.random() < 0.55:
        mark = rng.choice((" ", "\n")) if is_prose else rng.choice(("\n", "\n", "; "))
        text = mark.join(_begin(line) if is_prose else line for line in lines)
        return (Chunk(text + ("" if is_prose else "\n"), is_block=not is_prose),)
    thread = rng.getrandbits(31) + 1
    return tuple(
        Chunk(_begin(line) if is_prose else line, is_block=not is_prose, thread=thread)
        for line in lines
    )


def _begin(line: str) -> str:
    """Start a sentence with a capital, unless it starts with a variable."""
    starts_plainly = line.split(" ", 1)[0] in ("set", "the", "let", "we", "define", "store")
    return capitalise(line) if starts_plainly else line


def _ask_for_value(key: str, rng: Random, style: StyleConfig) -> str:
    return _ask("questions", key, rng, style)


def _ask_for_reference(key: str, rng: Random, style: StyleConfig) -> str:
    """Ask which key a key refers to."""
    return _ask("reference questions", key, rng, style)


def _ask(section: str, key: str, rng: Random, style: StyleConfig) -> str:
    text = expand(choose(template_list("assignments", section), rng, style), rng, {"K": key})
    return text if text.startswith(key) else say_question(text, rng, style)


def draw_config_block(rng: Random) -> ConfigBlock:
    """Make 2 to 16 assignments in one notation, one of them chained now and then."""
    notation, upper = rng.choice(template_list("assignments", "lines")), rng.random() < 0.25
    drawn = {
        draw_line_key(rng, upper): values.draw(rng.choice(_VALUE_KINDS), rng)
        for _ in range(rng.randint(2, 16))
    }
    missing = draw_until(lambda key: key not in drawn, lambda: draw_line_key(rng, upper))
    lines = [_line(notation, key, value) for key, value in drawn.items()]
    chained = None
    if rng.random() < 0.35:
        key, target = f"{missing}_{draw_word('greek', rng)}", rng.choice(list(drawn))
        chained = (key, drawn[target], target)
        reference = rng.choice(template_list("assignments", "references")).replace("{T}", target)
        lines.insert(rng.randrange(len(lines) + 1), _line(notation, key, reference))
    head = rng.choice(("", "", f"# {draw_word('code nouns', rng)} settings\n", "```\n"))
    tail = "```\n" if head == "```\n" else ""
    return ConfigBlock(f"{head}{chr(10).join(lines)}\n{tail}", drawn, chained, missing)


def _line(notation: str, key: str, value: str) -> str:
    return notation.replace("{K}", key).replace("{V}", value)


def draw_line_key(rng: Random, upper: bool = False) -> str:
    """Two or three words of a program joined into a key."""
    mark = rng.choice(("_", "_", ".", "-"))
    parts = [*rng.sample(word_list("code nouns"), rng.randint(1, 2)), draw_word("code tails", rng)]
    key = mark.join(parts)
    return key.upper().replace("-", "_").replace(".", "_") if upper else key
