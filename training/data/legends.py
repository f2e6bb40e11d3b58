"""Plants of legends: signs and what they mean, one after another; asked for in both directions."""

from random import Random

from training.data import values, words
from training.data.facts import Chunk, Plant, Question, claim
from training.data.speech import Voice, say_question
from training.data.template import capitalise
from training.data.verbs import verb_of

_SIGNALS = (
    "blink",
    "buzz",
    "tick",
    "knock",
    "beep",
    "ring",
    "blast",
    "stroke of the bell",
    "whistle",
    "click",
    "hoot",
)
_DEVICES = (
    "the buzzer", "the siren", "the horn", "the panel", "the board", "the display", "the tower",
    "the gauge", "the alarm", "the clock", "the guard", "the pilot", "the wall", "the monitor",
)  # fmt: skip
_LENGTHS = ("short", "long", "loud", "soft", "high", "low", "quick", "slow")
_LIGHTS = ("light", "flag", "label", "sticker", "ribbon", "tag", "line", "lid", "stamp", "wire")
_MARKS = (": ", " - ", " = ", ", that is, ", " means: ", " stands for this: ", " -> ")
_ASKED_SIGNS = (
    "What sign is given when {M}?", "Which signal means that {M}?", "How does one know that {M}?",
    "What tells us that {M}?", "Which sign stands for this: {M}?", "{M}: what is the sign?",
    "What does one see or hear when {M}?", "When {M}, what is the signal?",
)  # fmt: skip
_ASKED_SIGNS_OF = (
    "How does {D} behave when {M}?", "What comes from {D} if {M}?", "What does {D} give if {M}?",
    "By which sign does {D} show that {M}?", "How can one tell from {D} that {M}?",
    "{D} gives which sign when {M}?", "What will {D} show or sound as soon as {M}?",
    "What do we get from {D} once {M}?", "If {M}, what does one notice at {D}?",
)  # fmt: skip
_HEADS = ("{D}: ", "The signs of {d}: ", "What {d} has to tell: ", "Signs given by {d}. ")
_ASKED_MEANINGS = (
    "What does {S} mean?", "What is meant by {S}?", "What does {S} stand for?", "{S}: what is it?",
    "What has happened in the case of {S}?", "How should {S} be understood?",
    "What do we learn from {S}?",
)  # fmt: skip


def plant_legend(rng: Random, voice: Voice) -> Plant:
    """Two to six signs of one sort with their meanings, in a paragraph or in lines."""
    make = rng.choice((_sound, _light, values.code))
    count = rng.randint(2, 6)
    signs = list(dict.fromkeys(make(rng) for _ in range(count)))
    meanings = list(dict.fromkeys(_meaning(rng, voice) for _ in signs))
    rows = list(zip(signs, meanings, strict=False))
    mark, joint = rng.choice(_MARKS), rng.choice((". ", "; ", "\n", "\n- "))
    is_block = "\n" in joint
    if joint != "; ":
        rows = [(capitalise(sign), meaning) for sign, meaning in rows]
    lines = [f"{sign}{mark}{meaning}" for sign, meaning in rows]
    text = f"{'- ' if joint.endswith('- ') else ''}{joint.join(lines)}"
    device, is_named = rng.choice(_DEVICES), rng.random() < 0.5
    if is_named:
        head = rng.choice(_HEADS).replace("{D}", capitalise(device)).replace("{d}", device)
        text = f"{head.rstrip() if is_block else head}{chr(10) if is_block else ''}{text}"
    text = f"{text}\n" if is_block else f"{capitalise(text)}."
    asked = rng.sample(rows, min(len(rows), 3))
    source = device if is_named or rng.random() < 0.2 else ""
    questions = [_ask(*row, source, rng, voice) for row in asked]
    return Plant((Chunk(text, is_block),), tuple(questions), claim(*signs, *meanings))


def _ask(sign: str, meaning: str, device: str, rng: Random, voice: Voice) -> Question:
    """Ask for the meaning or the sign; for the sign of a device, if there is one."""
    is_forward = rng.random() < 0.4
    of_signs = _ASKED_SIGNS + (_ASKED_SIGNS_OF if device else ())
    pattern = rng.choice(_ASKED_MEANINGS if is_forward else of_signs)
    pattern = pattern.replace("{S}", sign).replace("{M}", meaning).replace("{D}", device)
    text = say_question(capitalise(pattern), rng, voice)
    return Question(text, meaning if is_forward else sign, "legend")


def _sound(rng: Random) -> str:
    count, signal = rng.choice((*words.SMALL_NUMBERS[:6], "one")), rng.choice(_SIGNALS)
    head, mark, rest = signal.partition(" ")
    plural = head if count == "one" else f"{head}s"
    text = f"{count} {rng.choice(_LENGTHS)} {plural}{mark}{rest}"
    if rng.random() < 0.3:
        text += f" and {rng.choice(('one', 'two', 'three'))} {rng.choice(_LENGTHS)}"
    return text


def _light(rng: Random) -> str:
    return f"the {rng.choice(words.COLOURS)} {rng.choice(_LIGHTS)}"


def _meaning(rng: Random, voice: Voice) -> str:
    pool = voice.lexicon if voice.lexicon and rng.random() < 0.5 else words.COMMON
    noun = f"the {rng.choice(pool)} {rng.choice(words.THINGS)}"
    done = verb_of(rng.choice(words.ACTIONS)).participle
    return rng.choice(
        (
            f"{noun} is {rng.choice(words.DEFECTS)}",
            f"{noun} has been {done}",
            f"{noun} must be {done}",
            f"{noun} has {rng.choice(('failed', 'stopped', 'come loose', 'overheated', 'tilted'))}",
            f"{rng.choice(words.ROLES)} wanted at {noun}",
        )
    )
