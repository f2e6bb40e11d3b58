"""Invented documents: what a section states, ordinary sentences between, and questions.

Such a document is foreign to the reader's training: its names, figures and wordings are its own.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random

from training.data.wordings import REFUSAL


@dataclass(frozen=True)
class Fact:
    """Sentences of a section, and the question that they answer, if it is asked."""

    text: str
    question: str = ""
    answer: str = ""


@dataclass(frozen=True)
class Section:
    """A heading, what it states, and the things that its ordinary sentences speak of."""

    heading: str
    facts: tuple[Fact, ...]
    things: tuple[str, ...]


@dataclass(frozen=True)
class Filler:
    """Ordinary sentences with two slots for things, their openers, and paragraphs a section."""

    sentences: tuple[str, ...]
    openers: tuple[str, ...]
    paragraphs: int


def compose(
    title: str, sections: tuple[Section, ...], filler: Filler, missing: str, rng: Random
) -> tuple[str, list[dict[str, str]]]:
    """The text and its questions with answers.

    Args:
        missing: a question that the text does not answer; it comes last.
    """
    parts = [title]
    questions: list[dict[str, str]] = []
    for number, section in enumerate(sections, 1):
        parts.append(f"## {number}. {section.heading}")
        parts.extend(_paragraphs(section, filler, rng))
        questions += [
            {"question": fact.question, "answer": fact.answer}
            for fact in section.facts
            if fact.question
        ]
    questions.append({"question": missing, "answer": REFUSAL})
    return "\n\n".join(parts) + "\n", questions


def save(folder: Path, name: str, text: str, questions: list[dict[str, str]]) -> None:
    """Write a document and its questions.json into a folder."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / "questions.json").write_text(
        json.dumps(questions, indent=2, ensure_ascii=False) + "\n"
    )


def _paragraphs(section: Section, filler: Filler, rng: Random) -> list[str]:
    """Each fact inside a paragraph of its own, and paragraphs that state nothing between them."""
    paragraphs = [
        f"{_talk(section, filler, rng, rng.randint(1, 3))} {fact.text} "
        f"{_talk(section, filler, rng, rng.randint(1, 3))}"
        for fact in section.facts
    ]
    for _ in range(filler.paragraphs):
        place = rng.randint(0, len(paragraphs))
        paragraphs.insert(place, _talk(section, filler, rng, rng.randint(4, 7)))
    return paragraphs


def _talk(section: Section, filler: Filler, rng: Random, num_sentences: int) -> str:
    return " ".join(
        _sentence(template, section, filler, rng)
        for template in rng.sample(filler.sentences, num_sentences)
    )


def _sentence(template: str, section: Section, filler: Filler, rng: Random) -> str:
    text = template.format(*rng.sample(section.things, 2))
    opener = rng.choice(filler.openers)
    if not opener or opener.endswith(". "):
        return opener + text[0].upper() + text[1:]
    return opener + (text[0].lower() + text[1:])
