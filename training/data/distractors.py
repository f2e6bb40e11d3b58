"""Ordinary paragraphs that speak of what a document is asked about, and tell nothing that is asked.

In a manual the gear housing stands in ten sentences, and one of them names its oil. Where a thing
is spoken of once, finding its name is finding the answer; among such paragraphs it is not.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from training.data.cloze_translation import split_sentences
from training.data.facts import Chunk, Needle
from training.data.text import capitalise, function_words

_NAME = re.compile(r"(?<=[a-z,] )[A-Z][\w'\u2019-]+(?: [A-Z][\w'\u2019-]+)*")
_HEAD = re.compile(
    r"\b(?:the|a|an|this|his|her|their|our|my|your) [a-z]{3,}"
    r"(?=[,;.!?]| (?:of|in|on|at|to|was|were|is|are|and|had|has|with|for|from|that|which|by|as)\b)"
)
_MOST_WORDS = 3  # of a name of a thing
_EXCHANGED_SHARE = 0.6  # of the things in a sentence: names of what is asked about come instead
_TOLD_SHARE = 0.7  # of the statements: they stand inside such a paragraph
_PARAGRAPHS, _SENTENCES = (1, 5), (2, 7)  # of a section and of a paragraph, from and to
_THINGS = (1, 2)  # of the needle that a section is about, and as many of another


@dataclass(frozen=True)
class _Section:
    """Paragraphs, each a list of sentences, that speak of the same things."""

    things: tuple[str, ...]
    paragraphs: tuple[list[str], ...]


def add_distractors(
    needles: Sequence[Needle], named: Sequence[list[str]], text: str, rng: Random
) -> list[Chunk]:
    """Chunks of the needles, most of their statements inside sections made of `text`.

    Each section speaks of a few of the things that the needles' questions name, and a statement
    stands in one that speaks of its own things, if there is any.

    Args:
        named: the names of each needle (names_of).
    """
    chunks = [chunk for needle in needles for chunk in needle.chunks]
    named = [names for names in named if names]
    if not named:
        return chunks
    sections = list(_sections(text, named, rng))
    kept = []
    for chunk in chunks:
        if sections and not (chunk.is_block or chunk.thread) and rng.random() < _TOLD_SHARE:
            own = [one for one in sections if _speaks_of(chunk.text, one.things)]
            paragraph = rng.choice(rng.choice(own or sections).paragraphs)
            paragraph.insert(rng.randrange(len(paragraph) + 1), chunk.text)
        else:
            kept.append(chunk)
    return kept + [
        Chunk("\n".join(map(" ".join, section.paragraphs)), is_block=True) for section in sections
    ]


def names_of(needle: Needle) -> list[str]:
    """What questions and text of a needle both speak of, and no answer does."""
    text = " ".join(chunk.text for chunk in needle.chunks).lower()
    answers = " ".join(question.answer for question in needle.questions).lower()
    names = (
        next(
            (name for name in candidates if re.search(rf"\b{re.escape(name.lower())}\b", text)), ""
        )
        for question in needle.questions
        for candidates in _named(question.text)
    )
    return [name for name in dict.fromkeys(names) if name and _last(name) not in answers]


def mention(sentence: str, names: Sequence[str], rng: Random) -> str:
    """The sentence, speaking of `names` here and there where it spoke of something else."""
    said = _HEAD.sub(
        lambda thing: rng.choice(names) if rng.random() < _EXCHANGED_SHARE else thing.group(),
        sentence,
    )
    return capitalise(said)


def _sections(text: str, named: Sequence[list[str]], rng: Random) -> Iterator[_Section]:
    """Sections until the text is used up; `named` are the names of each needle."""
    sentences = [sentence for sentence in split_sentences(text) if sentence]
    while sentences:
        own, others = rng.choice(named), rng.choice(named)
        things = (*_some(own, rng), *_some(others, rng))
        sizes = [rng.randint(*_SENTENCES) for _ in range(rng.randint(*_PARAGRAPHS))]
        taken = [[sentences.pop(0) for _ in range(min(size, len(sentences)))] for size in sizes]
        said = ([mention(sentence, things, rng) for sentence in part] for part in taken if part)
        yield _Section(things, tuple(said))


def _some(names: Sequence[str], rng: Random) -> list[str]:
    return rng.sample(names, min(len(names), rng.randint(*_THINGS)))


def _speaks_of(text: str, things: Iterable[str]) -> bool:
    return any(thing.lower() in text.lower() for thing in things)


def _named(question: str) -> Iterator[list[str]]:
    """What a question may speak of: readings of each name, the longest first."""
    for name in _NAME.findall(question):
        yield [name]
    words = re.findall(r"[\w'\u2019-]+|[^\w\s]", question)
    for place, word in enumerate(words):
        if word.lower() in function_words("determiners"):
            thing = list(_thing_of(words[place + 1 : place + 1 + _MOST_WORDS]))
            yield [" ".join(["the", *thing[:end]]) for end in range(len(thing), 0, -1)]


def _thing_of(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if word in function_words("behind a name") or not word.islower() or not word[0].isalpha():
            return
        yield word


def _last(name: str) -> str:
    return name.lower().rpartition(" ")[2]
