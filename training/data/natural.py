"""Questions that people asked about real paragraphs: SQuAD 1.1 and FairytaleQA (train parts)."""

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from training.data import values
from training.data.answers import AnswerPool, exchange_answers
from training.data.split import is_held_out
from training.data.synonyms import replace_word

_NAMES = re.compile(r"[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,})*")
INSIDE = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,})*")
_RENAMED = 0.7  # of the names in the text
_ANSWERED_OTHERWISE = (0.0, 0.0, 0.5)  # of the answers: each of these shares as often
_EXCHANGED = (0.0, 0.0, 0.0, 0.1, 0.3)  # of the other words: each of these shares as often
_WORDS = re.compile(r"\d+|[A-Za-z]{3,}")  # shorter words are neither names nor exchanged


@dataclass(frozen=True)
class Passage:
    """A paragraph and (question, answer) pairs about it."""

    text: str
    questions: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Article:
    """Passages under one title, in their order."""

    title: str
    passages: tuple[Passage, ...]


def disguise(
    passage: Passage,
    rng: Random,
    lexicon: tuple[str, ...] = (),
    pool: AnswerPool | None = None,
) -> Passage:
    """Give a passage other numbers, other names, and at times other words, each wherever it stands.

    What was learned by heart no longer answers its questions: they have to be read.

    Args:
        lexicon: words that may take the place of others with the same ending.
        pool: answers that may take the place of the passage's.
    """
    if pool:
        share = rng.choice(_ANSWERED_OTHERWISE)
        passage = Passage(*exchange_answers(passage.text, passage.questions, pool, rng, share))
    answers = [answer for _, answer in passage.questions if _NAMES.fullmatch(answer)]
    inside = [name for name in INSIDE.findall(passage.text) if rng.random() < _RENAMED]
    make_name = rng.choice((values.surname, values.surname, values.spelled_name))
    others = {word: make_name(rng) for name in (*answers, *inside) for word in name.split(" ")}
    share = rng.choice(_EXCHANGED) if lexicon else 0.0

    def exchange(match: re.Match[str]) -> str:
        found = match.group()
        if found not in others:
            others[found] = found
            if found.isdigit():
                others[found] = _other_number(found, rng)
            elif share and rng.random() < share:
                others[found] = replace_word(found, lexicon, rng)
        return others[found]

    return Passage(
        _WORDS.sub(exchange, passage.text),
        tuple(
            (_WORDS.sub(exchange, question), _WORDS.sub(exchange, answer))
            for question, answer in passage.questions
        ),
    )


def _other_number(digits: str, rng: Random) -> str:
    """As many digits; a year stays in its millennium."""
    first = digits[0] if len(digits) == 4 and digits[0] in "12" else rng.choice("123456789")
    return first + "".join(rng.choices("0123456789", k=len(digits) - 1))


def load_squad(file: Path, *, held_out: bool) -> list[Article]:
    """Read SQuAD's articles on one side of the split (by title)."""
    return [
        Article(article["title"], tuple(map(_squad_passage, article["paragraphs"])))
        for article in _read(file)["data"]
        if is_held_out(article["title"]) == held_out
    ]


def _squad_passage(paragraph: dict[str, Any]) -> Passage:
    pairs = [(qa["question"].strip(), qa["answers"][0]["text"]) for qa in paragraph["qas"]]
    return Passage(paragraph["context"], tuple(pairs))


def load_fairytales(file: Path, *, held_out: bool, longest: int = 80) -> list[Article]:
    """Read FairytaleQA's stories; keep questions whose answer stands in its section."""
    found = []
    for story in _read(file)["data"]:
        if is_held_out(story["title"]) == held_out:
            found.append(Article(story["title"], _story_passages(story, longest)))
    return found


def _story_passages(story: dict[str, Any], longest: int) -> tuple[Passage, ...]:
    sections = story["sections"]
    pairs: list[list[tuple[str, str]]] = [[] for _ in sections]
    for question in story["qas"]:
        for place, text in enumerate(sections):
            answer = _verbatim(question["answers"], text)
            if answer and len(answer) <= longest:
                pairs[place].append((question["question"].strip(), answer))
                break
    return tuple(Passage(text, tuple(own)) for text, own in zip(sections, pairs, strict=True))


def _verbatim(answers: list[str], text: str) -> str | None:
    """The first answer that stands in the text, as it stands there."""
    for answer in answers:
        plain = answer.strip().rstrip(".")
        start = text.lower().find(plain.lower()) if plain else -1
        if start >= 0:
            return text[start : start + len(plain)]
    return None


def _read(file: Path) -> dict[str, Any]:
    with gzip.open(file, "rt", encoding="utf-8") as source:
        data: dict[str, Any] = json.load(source)
    return data
