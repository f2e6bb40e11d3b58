"""Compose whole examples: a document with planted facts, then questions and answers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from reader.data.haystack import Haystack, Ids, Slice, draw_slice
from reader.data.natural import Article
from reader.data.plants import Chunk, Plant, Question, plant_any
from reader.data.speech import Voice
from reader.data.wordings import REFUSAL
from reader.tokenizer import ANSWER_ID, DOCUMENT_ID, END_ID, QUESTION_ID, without_prefix

_CHARACTERS_A_TOKEN = 3.0
SCALE = 100  # weights are stored in hundredths


@dataclass(frozen=True)
class Example:
    """One training sequence.

    Attributes:
        ids: (length + 1,) uint16.
        weights: (length + 1,) uint8, each token's weight as a target, in hundredths.
    """

    ids: Ids
    weights: NDArray[np.uint8]


@dataclass(frozen=True)
class Sources:
    """What documents are made of."""

    haystacks: Sequence[Haystack]
    haystack_weights: Sequence[float]
    articles: Sequence[Article]


@dataclass(frozen=True)
class Piece:
    """A tokenized chunk."""

    ids: Ids
    is_block: bool


class Encoder:
    """Tokenizes chunks as they stand inside a document, and questions and answers alone."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._whole = tokenizer
        self._inner = without_prefix(tokenizer)

    def chunks(self, chunks: Sequence[Chunk]) -> list[Piece]:
        """Tokenize chunks: sentences with a space before them, blocks with a newline after."""
        texts = [f"{c.text}\n" if c.is_block else f" {c.text}" for c in chunks]
        found = self._inner.encode_batch_fast(texts, add_special_tokens=False)
        return [
            Piece(np.array(one.ids, np.uint16), chunk.is_block)
            for one, chunk in zip(found, chunks, strict=True)
        ]

    def texts(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize pieces that stand alone: document, question, answer."""
        found = self._whole.encode_batch_fast(list(texts), add_special_tokens=False)
        return [one.ids for one in found]


class Composer:
    """Makes examples of any length from sources, plants and a tokenizer."""

    def __init__(self, encoder: Encoder, sources: Sources, voice: Voice) -> None:
        self._encoder, self._sources, self._voice = encoder, sources, voice

    def example(self, length: int, rng: Random) -> Example:
        """Make one training sequence of exactly length + 1 tokens."""
        if rng.random() < (0.05 if length <= 2048 else 0.01):
            return repeated_tokens(length, rng)
        chunks, questions = self._draw(length, rng)
        pieces = self._encoder.chunks(chunks)
        turns = self._turns(questions)
        pieces, turns = _fit(pieces, turns, length)
        rng.shuffle(turns)
        room = length - sum(map(len, turns)) - sum(len(piece.ids) for piece in pieces)
        document = weave(self.haystack(room, rng), pieces, rng)
        return _join(document, turns, text_weight=25 if length <= 512 else 10)

    def haystack(self, num_tokens: int, rng: Random) -> Slice:
        """Draw filler: one stretch, or a few of different sources one after another."""
        count = 1 if num_tokens < 600 else rng.choice((1, 1, 2, 3))
        cuts = sorted(rng.randrange(num_tokens + 1) for _ in range(count - 1))
        sizes = np.diff([0, *cuts, num_tokens])
        return _chain([self._stretch(int(size), rng) for size in sizes if size > 0])

    def _stretch(self, num_tokens: int, rng: Random) -> Slice:
        weights = self._sources.haystack_weights
        return draw_slice(rng.choices(self._sources.haystacks, weights)[0], num_tokens, rng)

    def _draw(self, length: int, rng: Random) -> tuple[list[Chunk], list[Question]]:
        low, high = _fill(length)
        budget = rng.uniform(low, high) * length * _CHARACTERS_A_TOKEN
        chunks: list[Chunk] = []
        questions: list[Question] = []
        if self._sources.articles and rng.random() < 0.4:
            plant = self._natural(rng.uniform(0.3, 0.9) * budget, rng)
            budget -= _size(plant)
            chunks.extend(plant.chunks)
            questions.extend(plant.questions)
        while budget > 0:
            plant = plant_any(rng, self._voice, int(budget / _CHARACTERS_A_TOKEN))
            budget -= _size(plant)
            chunks.extend(plant.chunks)
            questions.extend(plant.questions)
        return chunks, questions

    def _natural(self, characters: float, rng: Random) -> Plant:
        article = rng.choice(self._sources.articles)
        start = rng.randrange(len(article.passages))
        chunks: list[Chunk] = []
        questions: list[Question] = []
        for passage in article.passages[start:]:
            size = len(passage.text) + sum(len(q) + len(a) for q, a in passage.questions)
            if size > characters:
                break
            characters -= size
            chunks.append(Chunk(passage.text, is_block=True))
            questions.extend(Question(q, a, "natural") for q, a in passage.questions)
        return Plant(tuple(chunks), tuple(questions))

    def _turns(self, questions: Sequence[Question]) -> list[list[int]]:
        texts = [text for question in questions for text in (question.text, question.answer)]
        ids = self._encoder.texts(texts)
        return [
            [QUESTION_ID, *ids[place], ANSWER_ID, *ids[place + 1], END_ID]
            for place in range(0, len(ids), 2)
        ]


def weave(haystack: Slice, pieces: Iterable[Piece], rng: Random) -> Ids:
    """Put pieces at random places of a haystack: sentences into paragraphs, blocks between."""
    planted: list[tuple[int, float, Ids]] = []
    for piece in pieces:
        places = haystack.outer if piece.is_block else haystack.inner
        if not len(places):
            places = haystack.inner if piece.is_block else haystack.outer
        place = int(places[int(rng.random() * len(places))]) if len(places) else 0
        planted.append((place, rng.random(), piece.ids))
    planted.sort(key=lambda item: item[:2])
    parts, last = [], 0
    for place, _, ids in planted:
        parts += [haystack.ids[last:place], ids]
        last = place
    return np.concatenate([*parts, haystack.ids[last:]])


def repeated_tokens(length: int, rng: Random) -> Example:
    """Random tokens, repeated: the plainest exercise in copying."""
    draw = np.random.default_rng(rng.getrandbits(63))
    period = rng.randint(16, max(17, length // 2))
    once = draw.integers(4, 8192, period).astype(np.uint16)
    ids = np.resize(once, length + 1)
    ids[0] = DOCUMENT_ID
    weights = np.full(length + 1, 50, np.uint8)
    weights[: period + 1] = 0
    return Example(ids, weights)


def _fill(length: int) -> tuple[float, float]:
    if length <= 512:
        return 0.55, 0.9
    if length <= 2048:
        return 0.35, 0.85
    return (0.12, 0.6) if length <= 16384 else (0.08, 0.4)


def _size(plant: Plant) -> int:
    return sum(len(chunk.text) for chunk in plant.chunks) + sum(
        len(question.text) + len(question.answer) + 9 for question in plant.questions
    )


def _fit(
    pieces: list[Piece], turns: list[list[int]], length: int
) -> tuple[list[Piece], list[list[int]]]:
    """Drop turns until all fits; the facts stay, so no answer becomes unfounded."""
    room = length - sum(len(piece.ids) for piece in pieces)
    if room < 0:  # the estimate was far too low: leave the facts out with their questions
        return [], []
    kept: list[list[int]] = []
    for turn in turns:
        if len(turn) <= room:
            kept.append(turn)
            room -= len(turn)
    return pieces, kept


def _chain(slices: list[Slice]) -> Slice:
    if not slices:
        empty = np.zeros(0, np.int64)
        return Slice(np.zeros(0, np.uint16), empty, empty)
    starts = np.cumsum([0, *(len(part.ids) for part in slices[:-1])])
    return Slice(
        np.concatenate([part.ids for part in slices]),
        np.concatenate([part.inner + start for part, start in zip(slices, starts, strict=True)]),
        np.concatenate([part.outer + start for part, start in zip(slices, starts, strict=True)]),
    )


def _join(document: Ids, turns: list[list[int]], text_weight: int) -> Example:
    tail = np.array([token for turn in turns for token in turn], np.uint16)
    ids = np.concatenate([np.array([DOCUMENT_ID], np.uint16), document, tail])
    weights = np.full(len(ids), text_weight, np.uint8)
    place = 1 + len(document)
    for turn in turns:
        split = turn.index(ANSWER_ID) + 1
        weights[place : place + split] = text_weight // 2
        weights[place + split : place + len(turn)] = SCALE
        place += len(turn)
    return Example(ids, weights)


__all__ = ["REFUSAL", "Composer", "Encoder", "Example", "Sources", "weave"]
