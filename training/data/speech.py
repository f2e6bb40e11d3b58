"""Say a fact, ask for it: choose a wording and what surrounds it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from training.data import frames, values, wordings, words
from training.data.attributes import Attribute
from training.data.composed import draw_composed, draw_typed_question
from training.data.entities import Entity
from training.data.noise import disturb
from training.data.split import patterns_for
from training.data.template import capitalise, expand, lower_first
from training.data.verbs import verb_of

_VOWEL = re.compile(r"\ba (?=[aeio])")
_VERB_SLOTS = ("{base}", "{s}", "{ed}", "{pp}")
_COMPOSED_SHARE = 0.65  # of the generic wordings in training
_TYPED_SHARE = 0.4  # of the composed questions: they ask who, when, where, how much


@dataclass(frozen=True)
class Voice:
    """How facts are worded, and for whom.

    Attributes:
        wordings: `train`, `held_out` or `all` patterns.
        held_out: names from the side of the split that is never trained on.
        refusals: how often a plant brings a question without an answer.
        extras: how often questions for several keys or for a whole sentence are added.
        own: how often an attribute's own wordings are preferred to the generic ones.
        noise: how often a question is typed carelessly.
        lexicon: words of which invented attributes are made, besides those of the pools.
        cloze: how often a stretch of text is asked about by gaps and quotations.
    """

    wordings: str = "train"
    held_out: bool = False
    refusals: float = 0.25
    extras: float = 0.15
    own: float = 0.6
    noise: float = 0.0
    lexicon: tuple[str, ...] = ()
    cloze: float = 0.1


def speak_statement(
    entity: Entity, attribute: Attribute, value: str, rng: Random, voice: Voice
) -> str:
    """State that the entity's attribute has this value: one sentence or note."""
    pattern = own_pattern(attribute.statements, rng, voice) or _statement(attribute, rng, voice)
    text = _filled(pattern, entity.name, attribute, value, rng, voice)
    if entity.kind == "person":
        text = text.replace(" its ", " the ")
    return say_sentence(text, rng, voice)


def speak_of_it(attribute: Attribute, value: str, rng: Random, voice: Voice) -> str:
    """State an attribute of what was named before, without a preamble or a full stop."""
    pattern = choose(wordings.PRONOUN_STATEMENTS, rng, voice)
    if rng.random() < 0.5:
        pattern = _statement(attribute, rng, voice)
        for named in ("the {A} of {E}", "{E}'s {A}", "the {A} for {E}"):
            pattern = pattern.replace(named, "its {A}")
        pattern = pattern.replace("{E}'s ", "its ")
    return capitalise(_filled(pattern, "it", attribute, value, rng, voice))


def _filled(
    pattern: str, name: str, attribute: Attribute, value: str, rng: Random, voice: Voice
) -> str:
    slots = {"E": name, "A": rng.choice(attribute.names), "V": value}
    if "{W}" in pattern:
        slots["W"] = _other_value(attribute, value, rng, voice)
    if any(slot in pattern for slot in _VERB_SLOTS):
        verb = verb_of(rng.choice(words.ACTIONS))
        slots |= {"base": verb.base, "s": verb.third, "ed": verb.past, "pp": verb.participle}
    return expand(pattern, rng, slots)


def _other_value(attribute: Attribute, value: str, rng: Random, voice: Voice) -> str:
    """Another value, neither part of the right one nor it of this one."""
    for _ in range(20):
        other = values.draw(attribute.value, rng, held_out=voice.held_out)
        if other.lower() not in value.lower() and value.lower() not in other.lower():
            return other
    return "something else"


def _statement(attribute: Attribute, rng: Random, voice: Voice) -> str:
    if _is_composed(rng, voice):
        return draw_composed("statement", rng)
    luck = rng.random()
    if luck < 0.08:
        return choose(frames.CONTRASTS, rng, voice)
    if luck < 0.16:
        return choose(frames.NEGATIVE_STATEMENTS, rng, voice)
    if luck < 0.22:
        return choose(frames.VERB_STATEMENTS, rng, voice)
    if luck < 0.4:
        return choose(wordings.STATEMENTS, rng, voice)
    if luck < 0.6:
        return choose(frames.SUBJECT_STATEMENTS, rng, voice)
    typed = frames.TYPED_PREDICATES.get(frames.WORD_FOR.get(attribute.value, ""), ())
    pool = typed if typed and luck < 0.68 else frames.PREDICATES
    return frames.compose(choose(pool, rng, voice), _noun(rng, voice))


def _noun(rng: Random, voice: Voice) -> str:
    """A noun phrase for the value."""
    if _is_composed(rng, voice):
        return draw_composed("noun", rng)
    return choose(frames.NOUN_PHRASES, rng, voice)


def _is_composed(rng: Random, voice: Voice) -> bool:
    """Whether training draws from the productions; no other wordings do."""
    return voice.wordings == "train" and rng.random() < _COMPOSED_SHARE


def speak_question(entity: Entity, attribute: Attribute, rng: Random, voice: Voice) -> str:
    """Ask for the entity's attribute."""
    slots = {"E": entity.name, "A": rng.choice(attribute.names)}
    pattern = own_pattern(attribute.questions, rng, voice) or _question(attribute, rng, voice)
    return say_question(fix_article(expand(pattern, rng, slots)), rng, voice)


def _question(attribute: Attribute, rng: Random, voice: Voice) -> str:
    word, luck = frames.WORD_FOR.get(attribute.value, ""), rng.random()
    if _is_composed(rng, voice):
        return draw_typed_question(word if luck < _TYPED_SHARE else "", rng)
    if luck < 0.3:
        return choose(wordings.QUESTIONS, rng, voice)
    if luck < 0.45:
        return choose(frames.SUBJECT_QUESTIONS, rng, voice)
    typed = frames.TYPED_QUESTIONS.get(word, ())
    if luck > 0.75:
        typed = ()
    return frame_question(_noun(rng, voice), rng, voice, typed)


def frame_question(phrase: str, rng: Random, voice: Voice, typed: tuple[str, ...] = ()) -> str:
    """A question pattern that asks for what a noun phrase names."""
    return frames.compose(choose(typed or frames.QUESTION_FRAMES, rng, voice), phrase)


def say_sentence(text: str, rng: Random, voice: Voice) -> str:
    """Put a preamble or a tail around a statement now and then."""
    text = text.rstrip(",")
    head, tail = (0.3, 0.3) if voice.wordings == "train" else (0.2, 0.18)
    if rng.random() < head:
        text = _around(wordings.STATEMENT_HEADS, "opening", rng, voice) + text
    if rng.random() < tail:
        text += _around(wordings.STATEMENT_TAILS, "closing", rng, voice)
    text = fix_article(text)
    return capitalise(text) + ("" if text.endswith(".") else ".")


def say_question(text: str, rng: Random, voice: Voice) -> str:
    """Put a preamble, a tail or politeness around a question now and then."""
    text, luck = capitalise(text), rng.random()
    if rng.random() < 0.1 and text[-1] in "?.":
        text = text[:-1] + _around(wordings.INNER_TAILS, "within", rng, voice) + text[-1]
    if luck < 0.15:
        head = _around(wordings.QUESTION_HEADS, "lead", rng, voice)
        text = capitalise(head + lower_first(text))
    elif luck < 0.29:
        text += _around(wordings.QUESTION_TAILS, "finish", rng, voice)
    elif luck < 0.33:
        text = lower_first(text).rstrip("?.")
    return disturb(text, rng) if rng.random() < voice.noise else text


def _around(patterns: tuple[str, ...], name: str, rng: Random, voice: Voice) -> str:
    """What stands around a sentence: one of the patterns, or a production's."""
    if _is_composed(rng, voice):
        return draw_composed(name, rng)
    return expand(choose(patterns, rng, voice), rng, {})


def join_words(items: Sequence[str]) -> str:
    """a, b and c."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def own_pattern(own: tuple[str, ...], rng: Random, voice: Voice) -> str | None:
    """One of an attribute's own wordings, or nothing: then a generic one is to be taken."""
    mine = patterns_for(own, voice.wordings)
    return choose(mine, rng, voice) if mine and rng.random() < voice.own else None


def choose(patterns: tuple[str, ...], rng: Random, voice: Voice) -> str:
    """A pattern of the voice's side of the split; any, where that side is empty."""
    fitting = patterns_for(patterns, voice.wordings) or patterns
    return fitting[int(rng.random() * len(fitting))]


def fix_article(text: str) -> str:
    """Write `an` before a vowel."""
    return _VOWEL.sub("an ", text)
