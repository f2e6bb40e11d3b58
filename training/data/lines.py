"""Configuration lines: keys, values, and chains of references between keys."""

from dataclasses import dataclass
from random import Random

from training.data import values, words
from training.data.draws import draw_until
from training.data.speech import Voice, choose, say_question
from training.data.template import expand

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
    "What is the final value of {K}?",
    "What value does {K} end up with?",
    "Which value does {K} hold?",
    "What does {K} evaluate to?",
    "What does {K} hold?",
    "Tell me the value of {K}.",
    "Tell me what {K} is.",
    "State the value of {K}.",
    "What is in {K}?",
    "What is stored in {K}?",
    "What value was given to {K}?",
    "What value has {K}?",
    "How is {K} set?",
    "What did they set {K} to?",
    "Print {K}.",
    "Find the value of {K}.",
    "{K} = ?",
    "{K} is what?",
    "I need the value of {K}.",
    "Which setting does {K} have?",
    "What is assigned to {K}?",
    "What has {K} been set to?",
    "What would printing {K} give?",
    "Value of {K}?",
    "What is configured for {K}?",
    "Do you know the value of {K}?",
    "What does the configuration say for {K}?",
    "Resolve {K}.",
    "What does {K} come out as?",
    "If I read {K}, what do I get?",
)
REFERENCE_QUESTIONS = (
    "Which variable is {K} copied from?",
    "From which variable does {K} take its value?",
    "Which name does {K} refer to?",
    "Which other variable defines {K}?",
    "On which variable does {K} depend directly?",
    "What variable is written in the definition of {K}?",
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
_REFERENCES = (
    "${{T}}",
    "${T}",
    "@{T}",
    "ref({T})",
    "%{T}%",
    "value of {T}",
    "same as {T}",
    "{{T}}",
)
VALUE_KINDS = [
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


def question_for_line(key: str, rng: Random, voice: Voice) -> str:
    """Ask for a key's value."""
    return _ask(LINE_QUESTIONS, key, rng, voice)


def question_for_reference(key: str, rng: Random, voice: Voice) -> str:
    """Ask which key a key refers to."""
    return _ask(REFERENCE_QUESTIONS, key, rng, voice)


def _ask(pool: tuple[str, ...], key: str, rng: Random, voice: Voice) -> str:
    text = expand(choose(pool, rng, voice), rng, {"K": key})
    return text if text.startswith(key) else say_question(text, rng, voice)


def config_block(rng: Random) -> ConfigBlock:
    """Make 2 to 16 assignments in one style, one of them chained now and then."""
    style, upper = rng.choice(_STYLES), rng.random() < 0.25
    drawn = {
        draw_line_key(rng, upper): values.draw(rng.choice(VALUE_KINDS), rng)
        for _ in range(_size(rng))
    }
    missing = draw_until(lambda key: key not in drawn, lambda: draw_line_key(rng, upper))
    lines = [_line(style, key, value) for key, value in drawn.items()]
    chained = None
    if rng.random() < 0.35:
        key, target = f"{missing}_{rng.choice(words.GREEK)}", rng.choice(list(drawn))
        chained = (key, drawn[target], target)
        reference = rng.choice(_REFERENCES).replace("{T}", target)
        lines.insert(rng.randrange(len(lines) + 1), _line(style, key, reference))
    head = rng.choice(("", "", f"# {rng.choice(words.CODE_NOUNS)} settings\n", "```\n"))
    tail = "```\n" if head == "```\n" else ""
    return ConfigBlock(f"{head}{chr(10).join(lines)}\n{tail}", drawn, chained, missing)


def _line(style: str, key: str, value: str) -> str:
    return style.replace("{K}", key).replace("{V}", value)


def draw_line_key(rng: Random, upper: bool = False) -> str:
    """Two or three words of a program joined into a key."""
    mark = rng.choice(("_", "_", ".", "-"))
    parts = [*rng.sample(words.CODE_NOUNS, rng.randint(1, 2)), rng.choice(words.CODE_TAILS)]
    key = mark.join(parts)
    return key.upper().replace("-", "_").replace(".", "_") if upper else key


def _size(rng: Random) -> int:
    return rng.randint(2, 16)
