"""Questions that people asked about real paragraphs: SQuAD 1.1 and FairytaleQA (train parts)."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reader.data.split import is_held_out


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
