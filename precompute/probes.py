"""Probe questions, made from the document itself, that budgets are calibrated on.

A document's last tokens do not look like a question, so thresholds that are calibrated on them load
far more than asked for. What people ask for is mostly a name, a figure or a code, in the words that
stand around it: such a span is cut out of a sampled sentence, and asked for.
"""

import random
import re
from dataclasses import dataclass

from engine.sentences import sentence_spans

WORDINGS = (
    'What is missing in "{before} ____ {after}"?',
    "Fill the gap: {before} ____ {after}",
    "Which word or number belongs here: {before} ____ {after}",
)
SALIENT = re.compile(r"\b(?:[A-Z][a-z]+(?: [A-Z][a-z]+)*|[A-Z0-9]*\d[\w.,:/-]*\w|\d)\b")
WORD = re.compile(r"\S+")
MIN_CHARS_BEFORE = 12  # a sentence's first word is capitalised for nothing
WORDS_BEFORE, WORDS_AFTER = 10, 6


@dataclass(frozen=True)
class Probe:
    """A question about the document and an answer that stands in it."""

    question: str
    answer: str


def make_probes(text: str, count: int, seed: int) -> tuple[Probe, ...]:
    """Cut spans out of sampled sentences; every call with the same arguments gives the same.

    Args:
        text: the document.
        count: how many; sentences are used again where there are too few.
    """
    draw = random.Random(seed)
    sentences = [text[start:end] for start, end in sentence_spans(text)]
    telling = [one for one in sentences if _spans(one, SALIENT)]
    usable = telling or [one for one in sentences if _spans(one, WORD)] or [f"{text} {text}"]
    chosen = draw.sample(usable, min(count, len(usable)))
    chosen += draw.choices(usable, k=count - len(chosen))
    return tuple(_probe(sentence, draw) for sentence in chosen)


def _spans(sentence: str, pattern: re.Pattern[str]) -> list[re.Match[str]]:
    return [span for span in pattern.finditer(sentence) if span.start() >= MIN_CHARS_BEFORE]


def _probe(sentence: str, draw: random.Random) -> Probe:
    spans = _spans(sentence, SALIENT) or _spans(sentence, WORD) or list(WORD.finditer(sentence))
    span = draw.choice(spans)
    before, after = sentence[: span.start()].split(), sentence[span.end() :].split()
    question = draw.choice(WORDINGS).format(
        before=" ".join(before[-WORDS_BEFORE:]), after=" ".join(after[:WORDS_AFTER])
    )
    return Probe(question, span.group())
