"""Say a fact, ask for it: choose a template and what surrounds it."""

from dataclasses import dataclass
from random import Random

from training.data import values
from training.data.attributes import Attribute
from training.data.entities import Entity
from training.data.grammar import draw_pattern, draw_typed_question
from training.data.noise import disturb
from training.data.split import patterns_for
from training.data.templates import draw_word, expand, template_list, template_lists
from training.data.text import capitalise, fix_article, lower_first
from training.data.verbs import verb_of

_VERB_SLOTS = ("{base}", "{s}", "{ed}", "{pp}")
_COMPOSED_SHARE = 0.65  # of the generic wordings in training
_TYPED_SHARE = 0.4  # of the composed questions: they ask who, when, where, how much
_QUESTION_TYPES = {  # by the kind of the value that is asked for; a section of frames.txt each
    "person": "who", "date": "when", "weekday": "day", "month": "period", "year": "period",
    "time": "clock", "place": "where", "spot": "where", "room": "where", "money": "how much",
    "count": "how many", "int": "how many", "unitless": "how many", "duration": "how long",
    "code": "spelling", "digits12": "spelling", "pin": "spelling", "uuid": "spelling",
    "hash": "spelling", "url": "spelling", "email": "spelling", "hyphen": "spelling",
    "phone": "spelling", "colour": "colour", "percent": "share", "measure": "extent",
}  # fmt: skip


@dataclass(frozen=True)
class StyleConfig:
    """How facts are worded, and for whom.

    Attributes:
        wordings: `train`, `held_out` or `all` templates.
        held_out: names from the side of the split that is never trained on.
        refusals: how often a needle brings a question without an answer.
        extras: how often questions for several keys or for a whole sentence are added.
        own: how often an attribute's own wordings are preferred to the generic ones.
        noise: how often a question is typed carelessly.
        lexicon: words of which attributes are composed, besides those of the word lists.
        cloze: how often a stretch of text is asked about by gaps and quotations.
        is_release: excerpts come from the set that is opened only for a release.
    """

    wordings: str = "train"
    held_out: bool = False
    refusals: float = 0.25
    extras: float = 0.15
    own: float = 0.6
    noise: float = 0.0
    lexicon: tuple[str, ...] = ()
    cloze: float = 0.1
    is_release: bool = False


def state_attribute(
    entity: Entity, attribute: Attribute, value: str, rng: Random, style: StyleConfig
) -> str:
    """State that the entity's attribute has this value: one sentence or note."""
    pattern = own_pattern(attribute.statements, rng, style) or _statement(attribute, rng, style)
    text = _filled(pattern, entity.name, attribute, value, rng, style)
    if entity.kind == "person":
        text = text.replace(" its ", " the ")
    return say_sentence(text, rng, style)


def state_attribute_of_it(attribute: Attribute, value: str, rng: Random, style: StyleConfig) -> str:
    """State an attribute of what was named before, without a preamble or a full stop."""
    pattern = choose(template_list("wordings", "pronoun statements"), rng, style)
    if rng.random() < 0.5:
        pattern = _statement(attribute, rng, style)
        for named in ("the {A} of {E}", "{E}'s {A}", "the {A} for {E}"):
            pattern = pattern.replace(named, "its {A}")
        pattern = pattern.replace("{E}'s ", "its ")
    return capitalise(_filled(pattern, "it", attribute, value, rng, style))


def _filled(
    pattern: str, name: str, attribute: Attribute, value: str, rng: Random, style: StyleConfig
) -> str:
    slots = {"E": name, "A": rng.choice(attribute.names), "V": value}
    if "{W}" in pattern:
        slots["W"] = _other_value(attribute, value, rng, style)
    if any(slot in pattern for slot in _VERB_SLOTS):
        verb = verb_of(draw_word("actions", rng))
        slots |= {"base": verb.base, "s": verb.third, "ed": verb.past, "pp": verb.participle}
    return expand(pattern, rng, slots)


def _other_value(attribute: Attribute, value: str, rng: Random, style: StyleConfig) -> str:
    """Another value, neither part of the right one nor it of this one."""
    for _ in range(20):
        other = values.draw(attribute.value, rng, held_out=style.held_out)
        if other.lower() not in value.lower() and value.lower() not in other.lower():
            return other
    return "something else"


def _statement(attribute: Attribute, rng: Random, style: StyleConfig) -> str:
    if _is_composed(rng, style):
        return draw_pattern("statement", rng)
    luck, frames = rng.random(), template_lists("frames")
    if luck < 0.08:
        return choose(frames["contrasts"], rng, style)
    if luck < 0.16:
        return choose(frames["negative statements"], rng, style)
    if luck < 0.22:
        return choose(frames["verb statements"], rng, style)
    if luck < 0.4:
        return choose(template_list("wordings", "statements"), rng, style)
    if luck < 0.6:
        return choose(frames["subject statements"], rng, style)
    typed = frames.get(f"predicates: {_QUESTION_TYPES.get(attribute.value)}", ())
    pool = typed if typed and luck < 0.68 else frames["predicates"]
    return _put_phrase(choose(pool, rng, style), _noun(rng, style))


def _noun(rng: Random, style: StyleConfig) -> str:
    """A noun phrase for the value."""
    if _is_composed(rng, style):
        return draw_pattern("noun", rng)
    return choose(template_list("frames", "noun phrases"), rng, style)


def _is_composed(rng: Random, style: StyleConfig) -> bool:
    """Whether training draws from the grammar; no other wordings do."""
    return style.wordings == "train" and rng.random() < _COMPOSED_SHARE


def ask_for_attribute(entity: Entity, attribute: Attribute, rng: Random, style: StyleConfig) -> str:
    """Ask for the entity's attribute."""
    slots = {"E": entity.name, "A": rng.choice(attribute.names)}
    pattern = own_pattern(attribute.questions, rng, style) or _question(attribute, rng, style)
    return say_question(fix_article(expand(pattern, rng, slots)), rng, style)


def _question(attribute: Attribute, rng: Random, style: StyleConfig) -> str:
    kind, luck = _QUESTION_TYPES.get(attribute.value, ""), rng.random()
    if _is_composed(rng, style):
        return draw_typed_question(kind if luck < _TYPED_SHARE else "", rng)
    if luck < 0.3:
        return choose(template_list("wordings", "questions"), rng, style)
    if luck < 0.45:
        return choose(template_list("frames", "subject questions"), rng, style)
    typed = template_lists("frames").get(f"questions: {kind}", ())
    if luck > 0.75:
        typed = ()
    return frame_question(_noun(rng, style), rng, style, typed)


def frame_question(
    phrase: str, rng: Random, style: StyleConfig, typed: tuple[str, ...] = ()
) -> str:
    """A template of a question that asks for what a noun phrase names."""
    frames = typed or template_list("frames", "question frames")
    return _put_phrase(choose(frames, rng, style), phrase)


def _put_phrase(frame: str, phrase: str) -> str:
    """Put a noun phrase into a frame; a comma before another stop goes."""
    text = frame.replace("{NP}", phrase)
    for stop in ",.?:;":
        text = text.replace(f",{stop}", stop)
    return text


def say_sentence(text: str, rng: Random, style: StyleConfig) -> str:
    """Put a preamble or a tail around a statement now and then."""
    text = text.rstrip(",")
    head, tail = (0.3, 0.3) if style.wordings == "train" else (0.2, 0.18)
    if rng.random() < head:
        text = _around("statement heads", "opening", rng, style) + text
    if rng.random() < tail:
        text += _around("statement tails", "closing", rng, style)
    text = fix_article(text)
    return capitalise(text) + ("" if text.endswith(".") else ".")


def say_question(text: str, rng: Random, style: StyleConfig) -> str:
    """Put a preamble, a tail or politeness around a question now and then."""
    text, luck = capitalise(text), rng.random()
    if rng.random() < 0.1 and text[-1] in "?.":
        text = text[:-1] + _around("inner tails", "within", rng, style) + text[-1]
    if luck < 0.15:
        head = _around("question heads", "lead", rng, style)
        text = capitalise(head + lower_first(text))
    elif luck < 0.29:
        text += _around("question tails", "finish", rng, style)
    elif luck < 0.33:
        text = lower_first(text).rstrip("?.")
    return disturb(text, rng) if rng.random() < style.noise else text


def _around(section: str, production: str, rng: Random, style: StyleConfig) -> str:
    """What stands around a sentence: a template of wordings.txt, or a pattern of the grammar."""
    if _is_composed(rng, style):
        return draw_pattern(production, rng)
    return expand(choose(template_list("wordings", section), rng, style), rng, {})


def own_pattern(own: tuple[str, ...], rng: Random, style: StyleConfig) -> str | None:
    """One of an attribute's own wordings, or nothing: then a generic one is to be taken."""
    mine = patterns_for(own, style.wordings)
    return choose(mine, rng, style) if mine and rng.random() < style.own else None


def choose(patterns: tuple[str, ...], rng: Random, style: StyleConfig) -> str:
    """A template of the style's side of the split; any, where that side is empty."""
    fitting = patterns_for(patterns, style.wordings) or patterns
    return fitting[int(rng.random() * len(fitting))]
