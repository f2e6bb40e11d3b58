"""What can be said of a subject: attributes with wordings of their own (tables/attributes.txt)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from training.data.templates import Field, read_records, texts_of, word_list, word_lists


@dataclass(frozen=True)
class Attribute:
    """One attribute.

    Attributes:
        names: nouns for it ("birthplace"); the generic wordings use them.
        value: the kind of its values (training.data.values).
        subjects: kinds of entities that have it.
        statements, questions: templates of its own, with {E} and {V}.
    """

    names: tuple[str, ...]
    value: str
    subjects: tuple[str, ...]
    statements: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()


@cache
def attributes() -> tuple[Attribute, ...]:
    """All attributes with wordings of their own."""
    return tuple(map(_parse, read_records("attributes")))


def compose_attribute(rng: Random, lexicon: tuple[str, ...] = ()) -> Attribute:
    """Compose an attribute from a noun of its value's kind and other words: "spare combination"."""
    return compose_attribute_of(rng.choice(tuple(word_lists("attribute_nouns"))), rng, lexicon)


def compose_attribute_of(value: str, rng: Random, lexicon: tuple[str, ...] = ()) -> Attribute:
    """Compose an attribute whose values are of one kind.

    Raises: KeyError for a kind without nouns.
    """
    noun = rng.choice(word_lists("attribute_nouns")[value])
    return Attribute(
        (_compose(noun, rng, lexicon or word_list("common")),),
        value,
        ("person", "body", "site", "thing", "project", "service"),
    )


def _compose(noun: str, rng: Random, lexicon: tuple[str, ...]) -> str:
    luck, modifiers = rng.random(), word_list("attribute modifiers")
    if luck < 0.4:
        return f"{rng.choice(modifiers)} {noun}"
    if luck < 0.65:
        return f"{rng.choice(lexicon)} {noun}"
    if luck < 0.73:
        return f"{rng.choice(lexicon)} {rng.choice(lexicon)}"
    if luck < 0.8:
        return f"{rng.choice(modifiers)} {rng.choice(lexicon)} {noun}"
    if luck < 0.86:
        return f"{noun} of the {rng.choice(lexicon)}"
    return rng.choice(lexicon) if luck < 0.9 else noun


def _parse(record: Sequence[Field]) -> Attribute:
    (names,), (value,), (subjects,) = (texts_of(record, tag) for tag in "AVE")
    return Attribute(
        names=_split(names),
        value=value,
        subjects=_split(subjects),
        statements=texts_of(record, "S"),
        questions=texts_of(record, "Q"),
    )


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))
