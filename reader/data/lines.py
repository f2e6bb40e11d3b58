"""Configuration lines: keys, values, and chains of references between keys."""

from dataclasses import dataclass
from random import Random

from reader.data import values, words
from reader.data.template import expand

LINE_QUESTIONS = (
    "What is {K} set to?",
    "What is the value of {K}?",
    "Which value does {K} have?",
    "To what is {K} set?",
    "What is {K}?",
    "Give the value of {K}.",
    "{K}?",
    "What does {K} equal?",
    "Look up {K}.",
)
_STYLES = (
    "{K} = {V}",
    "{K}: {V}",
    "{K}={V}",
    '"{K}": "{V}",',
    "export {K}={V}",
    "set {K} {V}",
    "let {K} = {V};",
    '{K} = "{V}"',
    "<{K}>{V}</{K}>",
    "--{K} {V}",
    "{K} -> {V}",
    "- {K}: {V}",
)
_VALUE_KINDS = [
    "unitless",
    "int",
    "bool",
    "url",
    "version",
    "code",
    "word",
    "hyphen",
    "pin",
    "email",
    "uuid",
    "hash",
    "measure",
]


@dataclass(frozen=True)
class ConfigBlock:
    """Lines of text, what each key is set to, a chained key, and a key that is missing."""

    text: str
    values: dict[str, str]
    chained: tuple[str, str] | None
    missing: str


def question_for_line(key: str, rng: Random) -> str:
    """Ask for a key's value."""
    return expand(rng.choice(LINE_QUESTIONS), rng, {"K": key})


def config_block(rng: Random) -> ConfigBlock:
    """Make 2 to 16 assignments in one style, one of them chained now and then."""
    style, upper = rng.choice(_STYLES), rng.random() < 0.25
    drawn = {
        _key(rng, upper): values.draw(rng.choice(_VALUE_KINDS), rng) for _ in range(_size(rng))
    }
    missing = _key(rng, upper)
    while missing in drawn:
        missing = _key(rng, upper)
    lines = [_line(style, key, value) for key, value in drawn.items()]
    chained = None
    if rng.random() < 0.25:
        key, target = f"{missing}_{rng.choice(words.GREEK)}", rng.choice(list(drawn))
        chained = (key, drawn[target])
        lines.insert(rng.randrange(len(lines) + 1), _line(style, key, target))
    head = rng.choice(("", "", f"# {rng.choice(words.CODE_NOUNS)} settings\n", "```\n"))
    tail = "```\n" if head == "```\n" else ""
    return ConfigBlock(f"{head}{chr(10).join(lines)}\n{tail}", drawn, chained, missing)


def _line(style: str, key: str, value: str) -> str:
    return style.replace("{K}", key).replace("{V}", value)


def _key(rng: Random, upper: bool) -> str:
    mark = rng.choice(("_", "_", ".", "-"))
    parts = [*rng.sample(words.CODE_NOUNS, rng.randint(1, 2)), rng.choice(words.CODE_TAILS)]
    key = mark.join(parts)
    return key.upper().replace("-", "_").replace(".", "_") if upper else key


def _size(rng: Random) -> int:
    return rng.randint(2, 16)
