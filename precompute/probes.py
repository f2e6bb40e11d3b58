"""Probe questions, made from the document itself, that budgets are calibrated on.

A document's last tokens do not look like a question, so thresholds that are calibrated on them load
far more than asked for. A sentence with its end cut off, asked for in the chat template, does.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from engine.sentences import sentence_spans

WORDINGS = (
    "What does the document say about {topic}?",
    "{topic}: what is said about it?",
    'Which words follow "{topic}"?',
    "Tell me what the text gives for {topic}.",
)
WORDS = (6, 60)  # of a sentence that can be asked about
TOPIC_WORDS = (2, 8)
ANSWER_WORDS = (1, 4)


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
    sentences = [words for words in _sentences(text) if WORDS[0] <= len(words) <= WORDS[1]]
    sentences = sentences or [text.split() * WORDS[0]]
    chosen = draw.sample(sentences, min(count, len(sentences)))
    chosen += draw.choices(sentences, k=count - len(chosen))
    return tuple(_probe(words, draw) for words in chosen)


def _sentences(text: str) -> Iterator[list[str]]:
    return (text[start:end].split() for start, end in sentence_spans(text))


def _probe(words: list[str], draw: random.Random) -> Probe:
    num_answer = min(draw.randint(*ANSWER_WORDS), len(words) - TOPIC_WORDS[0])
    num_topic = min(draw.randint(*TOPIC_WORDS), len(words) - num_answer)
    start = draw.randint(0, len(words) - num_topic - num_answer)
    topic = " ".join(words[start : start + num_topic])
    answer = " ".join(words[start + num_topic : start + num_topic + num_answer])
    return Probe(draw.choice(WORDINGS).format(topic=topic), answer)
