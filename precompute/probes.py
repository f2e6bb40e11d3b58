"""Probe questions, made from the document itself, that budgets are calibrated on.

A document's last tokens do not look like a question, so thresholds that are calibrated on them load
far more than asked for. What people ask for is mostly a name, a figure or a code, in the words that
stand around it: such a span is cut out of a sampled passage, and asked for.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from common.sentences import sentence_spans, word_spans
from engine.document.cache import DocumentCache
from engine.model.prompt import PromptTemplate

WORDINGS = (
    'What is missing in "{before} ____ {after}"?',
    "Fill the gap: {before} ____ {after}",
    "Which word or number belongs here: {before} ____ {after}",
)
SALIENT = re.compile(r"\b(?:[A-Z][a-z]+(?: [A-Z][a-z]+)*|[A-Z0-9]*\d[\w.,:/-]*\w|\d)\b")
MIN_CHARS_BEFORE = 12  # a sentence's first word is capitalised for nothing
WORDS_BEFORE, WORDS_AFTER = 10, 6
# A probe costs a forward pass over so many tokens, whatever the text is.
PASSAGE_TOKENS, ANSWER_TOKENS = 40, 16
ENOUGH_PASSAGES = 32  # with fewer names and figures than this, any passage is asked about
UNBROKEN_TOKENS = 4  # the answer where a passage has no words: encoded data, combining marks

Span = tuple[int, int]


@dataclass(frozen=True)
class Probe:
    """A question about the document, and an answer that stands in it.

    Attributes:
        question_ids, answer_ids: (tokens,) int64; at least one token each.
        passage: half-open span of characters in which the answer stands.
    """

    question_ids: Tensor
    answer_ids: Tensor
    passage: Span = (0, 0)


class ProbeMaker:
    """Draws probes about one document; equal arguments draw equal probes.

    Args:
        document: its text, and where its tokens stand in it.
        prompt: makes token ids.
        room: tokens of the model's context behind the document: no probe has more.
        seed: of all draws.
    """

    def __init__(self, document: DocumentCache, prompt: PromptTemplate, room: int, seed: int):
        self._text, self._prompt, self._room = document.text, prompt, room
        self._draw = random.Random(seed)
        starts, ends = document.offsets.unbind(1)
        self._ends: list[int] = ends[ends > starts].tolist()
        passages = list(self._passages())
        telling = [one for one in passages if _salient(self._text[slice(*one)])]
        chosen = telling if len(telling) >= min(ENOUGH_PASSAGES, len(passages)) else passages
        self._passages_left = chosen or [(0, len(self._text))]
        self._draw.shuffle(self._passages_left)
        self._next = 0

    def make(self, count: int) -> list[Probe]:
        """Cut spans out of the next passages, which begin again where there are too few."""
        return [self._make() for _ in range(count)]

    def _passages(self) -> Iterator[Span]:
        """The document's sentences; those of more than `PASSAGE_TOKENS` are cut into pieces."""
        token = 0
        for start, end in sentence_spans(self._text):
            first = start
            while token < len(self._ends) and self._ends[token] <= start:
                token += 1
            while (cut := token + PASSAGE_TOKENS) < len(self._ends) and self._ends[cut] < end:
                if self._ends[cut] > first:
                    yield first, self._ends[cut]
                    first = self._ends[cut]
                token = cut
            if first < end:
                yield first, end

    def _make(self) -> Probe:
        start, end = self._passages_left[self._next % len(self._passages_left)]
        self._next += 1
        passage = self._text[start:end]
        spans = _salient(passage) or _words(passage) or [self._piece(passage)]
        first, last = self._draw.choice(spans)
        before, after = passage[:first].split(), passage[last:].split()
        question = self._draw.choice(WORDINGS).format(
            before=" ".join(before[-WORDS_BEFORE:]), after=" ".join(after[:WORDS_AFTER])
        )
        answer_ids = self._prompt.encode_answer(passage[first:last])[:ANSWER_TOKENS]
        answer_ids = answer_ids[: max(1, self._room // 2)]
        question_ids = self._prompt.encode_question(question)
        question_ids = question_ids[-max(1, self._room - len(answer_ids)) :]
        return Probe(question_ids, answer_ids, (start, end))

    def _piece(self, passage: str) -> Span:
        """A few characters from anywhere in a passage without words, about a few tokens long."""
        length = max(1, len(passage) * UNBROKEN_TOKENS // PASSAGE_TOKENS)
        start = self._draw.randrange(max(1, len(passage) - length + 1))
        return start, start + length


def _salient(passage: str) -> list[Span]:
    return [one.span() for one in SALIENT.finditer(passage) if one.start() >= MIN_CHARS_BEFORE]


def _words(passage: str) -> list[Span]:
    """The words of a passage, those that leave some of it to ask with if there are any."""
    words = [one for one in word_spans(passage) if one[1] - one[0] < len(passage) // 2]
    return [one for one in words if one[0] >= MIN_CHARS_BEFORE] or words
