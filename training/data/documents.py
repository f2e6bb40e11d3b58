"""Compose whole examples: a document with inserted facts, then questions and answers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from training.data.answers import AnswerPool
from training.data.cloze import make_cloze
from training.data.cloze_translation import make_sentence_questions
from training.data.distractors import add_distractors, names_of
from training.data.facts import Chunk, Needle, Question
from training.data.haystack import Haystack, Ids, Slice, draw_slice
from training.data.natural import Article
from training.data.needles import draw_needle
from training.data.passages import PassageSampler
from training.data.phrasing import StyleConfig
from training.data.unanswerable import ask_unanswerable
from training.tokenizer import ANSWER_ID, DOCUMENT_ID, END_ID, QUESTION_ID, without_prefix

_CHARACTERS_A_TOKEN = 3.0
_CHARACTERS_A_TOKEN_OF_ARTICLES = 3.4
SCALE = 100  # weights are stored in hundredths
_ALONE_SHARE = 0.15  # of the sequences: paragraphs without a haystack
_WHOLE_SHARE = 0.3  # of the sequences of 2,048 tokens and more: whole articles in them
_LONGEST_NATURAL = 32_768  # longer sequences are dear: they are for what is far apart
_MOST_OF_ARTICLES = 16_384  # tokens of whole articles and their questions in one document
_STRETCHED_SHARE = 0.15  # of them: stretches of a haystack are asked about
_DISTRACTOR_SHARE = 0.35  # of the other sequences: paragraphs speak of what is asked about
_DISTRACTOR_TOKENS = (0.1, 0.5)  # of such a sequence, from and to
_ORDERING, _ORDERING_SHARE = ("handbook", "specification", "minutes", "letters"), 0.4
_NATURAL_SHARE = 0.5  # of the other sequences: paragraphs in a haystack


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
    lexicon: tuple[str, ...] = ()
    pool: AnswerPool = field(default_factory=lambda: AnswerPool({}))


@dataclass(frozen=True)
class TokenChunk:
    """A tokenized chunk."""

    ids: Ids
    is_block: bool
    thread: int = 0


class Encoder:
    """Tokenizes chunks as they stand inside a document, and questions and answers alone."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._whole = tokenizer
        self._inner = without_prefix(tokenizer)

    def chunks(self, chunks: Sequence[Chunk]) -> list[TokenChunk]:
        """Tokenize chunks: sentences with a space before them, blocks with a newline after."""
        texts = [f"{c.text}\n" if c.is_block else f" {c.text}" for c in chunks]
        found = self._inner.encode_batch_fast(texts, add_special_tokens=False)
        return [
            TokenChunk(np.array(one.ids, np.uint16), chunk.is_block, chunk.thread)
            for one, chunk in zip(found, chunks, strict=True)
        ]

    def texts(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize texts that stand alone: document, question, answer."""
        found = self._whole.encode_batch_fast(list(texts), add_special_tokens=False)
        return [one.ids for one in found]

    def text(self, ids: Ids) -> str:
        """The text of tokens."""
        return self._inner.decode(ids.tolist())


class Composer:
    """Makes examples of any length from sources, needles and a tokenizer."""

    def __init__(self, encoder: Encoder, sources: Sources, style: StyleConfig) -> None:
        self._encoder, self._sources, self._style = encoder, sources, style
        self._passages = PassageSampler(sources.articles, style, sources.lexicon, sources.pool)

    def example(self, length: int, rng: Random) -> Example:
        """Make one training sequence of exactly length + 1 tokens."""
        if rng.random() < (0.03 if length <= 2048 else 0.005):
            return repeated_tokens(length, rng)
        is_natural = self._sources.articles and length <= _LONGEST_NATURAL
        if is_natural and length >= 1024 and rng.random() < _ALONE_SHARE:
            return self._paragraphs_alone(length, rng)
        is_whole = is_natural and length >= 2048 and rng.random() < _WHOLE_SHARE
        draw = self._draw_whole if is_whole else self._draw
        tokenized, turns = self._parts(*draw(length, rng), length)
        rng.shuffle(turns)
        room = length - sum(map(len, turns)) - sum(len(chunk.ids) for chunk in tokenized)
        document = insert_chunks(self.haystack(room, rng), tokenized, rng)
        return _join([(document, turns)], _text_weight(length))

    def _parts(
        self, chunks: Sequence[Chunk], questions: Sequence[Question], length: int
    ) -> tuple[list[TokenChunk], list[list[int]]]:
        return _fit(self._encoder.chunks(chunks), self._turns(questions), length)

    def _paragraphs_alone(self, length: int, rng: Random) -> Example:
        """Paragraphs as documents of their own, one after another, the last one filled up."""
        documents: list[tuple[Ids, list[list[int]]]] = []
        room = length + 1
        while True:
            needle = self._passages.paragraphs(rng.choice((1, 900, 2000)), rng)
            tokenized, turns = self._parts(needle.chunks, needle.questions, length)
            size = 1 + sum(len(chunk.ids) for chunk in tokenized) + sum(map(len, turns))
            if size > room:
                break
            rng.shuffle(turns)
            documents.append((np.concatenate([chunk.ids for chunk in tokenized]), turns))
            room -= size
        if room:
            documents.append((self.haystack(room - 1, rng).ids, []))
        return _join(documents, _text_weight(length))

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
        has_distractors = length <= _LONGEST_NATURAL and rng.random() < _DISTRACTOR_SHARE
        distractor_tokens = int(rng.uniform(*_DISTRACTOR_TOKENS) * length) if has_distractors else 0
        budget = rng.uniform(low, high) * (length - distractor_tokens) * _CHARACTERS_A_TOKEN
        needles: list[Needle] = []
        if self._sources.articles and rng.random() < _NATURAL_SHARE:
            share = rng.uniform(0.3, 0.95) if length <= 2048 else rng.uniform(0.1, 0.4)
            needles.append(self._passages.paragraphs(share * budget, rng))
            budget -= _size(needles[-1])
        if length >= 1024 and rng.random() < _STRETCHED_SHARE:
            for _ in range(rng.randint(1, 1 + length // 4096)):
                needles.append(
                    self._stretch_with_questions(
                        rng.randint(120, max(200, min(900, length // 5))), rng
                    )
                )
                budget -= _size(needles[-1])
        claimed: set[str] = set()
        while budget > 0:
            needle = draw_needle(rng, self._style, int(budget / _CHARACTERS_A_TOKEN))
            budget -= _size(needle)
            if not claimed & needle.claims:  # else a question might have two answers
                claimed |= needle.claims
                needles.append(needle)
        questions = [question for needle in needles for question in needle.questions]
        if not has_distractors:
            return [chunk for needle in needles for chunk in needle.chunks], questions
        named = [names_of(needle) for needle in needles]
        chunks = add_distractors(needles, named, self._distractor_text(distractor_tokens, rng), rng)
        return chunks, questions + ask_unanswerable(needles, named, rng, self._style)

    def _distractor_text(self, num_tokens: int, rng: Random) -> str:
        """Text of about so many tokens, now and then of a kind that gives orders."""
        ordering = [one for one in self._sources.haystacks if one.name in _ORDERING]
        if ordering and rng.random() < _ORDERING_SHARE:
            return self._encoder.text(draw_slice(rng.choice(ordering), num_tokens, rng).ids)
        return self._encoder.text(self._stretch(num_tokens, rng).ids)

    def _draw_whole(self, length: int, rng: Random) -> tuple[list[Chunk], list[Question]]:
        """Whole articles, and in long documents a haystack before and after them."""
        num_tokens = min(length, rng.randint(_MOST_OF_ARTICLES // 3, _MOST_OF_ARTICLES))
        needle = self._passages.whole(num_tokens * _CHARACTERS_A_TOKEN_OF_ARTICLES, rng)
        return list(needle.chunks), list(needle.questions)

    def _stretch_with_questions(self, num_tokens: int, rng: Random) -> Needle:
        """A stretch of a haystack, asked about its sentences, by gaps or by questions."""
        text = self._encoder.text(self._stretch(num_tokens, rng).ids)
        needle = make_cloze if rng.random() < self._style.cloze else make_sentence_questions
        return needle(text, rng, self._style)

    def _turns(self, questions: Sequence[Question]) -> list[list[int]]:
        texts = [text for question in questions for text in (question.text, question.answer)]
        ids = self._encoder.texts(texts)
        return [
            [QUESTION_ID, *ids[place], ANSWER_ID, *ids[place + 1], END_ID]
            for place in range(0, len(ids), 2)
        ]


def insert_chunks(haystack: Slice, tokenized: Iterable[TokenChunk], rng: Random) -> Ids:
    """Put chunks at random places of a haystack: sentences into paragraphs, blocks between.

    Chunks of one thread keep their order.
    """
    inserted: list[tuple[int, float, Ids]] = []
    threads: dict[int, list[int]] = {}
    for chunk in tokenized:
        places = haystack.outer if chunk.is_block else haystack.inner
        if not len(places):
            places = haystack.inner if chunk.is_block else haystack.outer
        place = int(places[int(rng.random() * len(places))]) if len(places) else 0
        if chunk.thread:
            threads.setdefault(chunk.thread, []).append(len(inserted))
        inserted.append((place, rng.random(), chunk.ids))
    for members in threads.values():
        spots = sorted(inserted[member][:2] for member in members)
        for member, (place, tie) in zip(members, spots, strict=True):
            inserted[member] = (place, tie, inserted[member][2])
    inserted.sort(key=lambda item: item[:2])
    parts, last = [], 0
    for place, _, ids in inserted:
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
    """Which share of a sequence facts and questions may take, from and to."""
    if length <= 512:
        return 0.55, 0.9
    if length <= 2048:
        return 0.4, 0.85
    return (0.15, 0.65) if length <= 16384 else (0.12, 0.5)


def _text_weight(length: int) -> int:
    """Weight of a token of the text: questions teach most, above all in long documents."""
    return 25 if length <= 512 else 3


def _size(needle: Needle) -> int:
    return sum(len(chunk.text) for chunk in needle.chunks) + sum(
        len(question.text) + len(question.answer) + 9 for question in needle.questions
    )


def _fit(
    tokenized: list[TokenChunk], turns: list[list[int]], length: int
) -> tuple[list[TokenChunk], list[list[int]]]:
    """Drop turns until all fits; the facts stay, so no answer becomes unfounded."""
    room = length - sum(len(chunk.ids) for chunk in tokenized)
    if room < 0:  # the estimate was far too low: leave the facts out with their questions
        return [], []
    kept: list[list[int]] = []
    for turn in turns:
        if len(turn) <= room:
            kept.append(turn)
            room -= len(turn)
    return tokenized, kept


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


def _join(documents: Sequence[tuple[Ids, list[list[int]]]], text_weight: int) -> Example:
    """Write documents, each followed by its turns, one after another."""
    parts: list[NDArray[np.uint16]] = []
    weights: list[NDArray[np.uint8]] = []
    for document, turns in documents:
        parts += [np.array([DOCUMENT_ID], np.uint16), document]
        weights.append(np.full(1 + len(document), text_weight, np.uint8))
        for turn in turns:
            own = np.full(len(turn), text_weight // 2, np.uint8)
            own[turn.index(ANSWER_ID) + 1 :] = SCALE
            parts.append(np.array(turn, np.uint16))
            weights.append(own)
    return Example(np.concatenate(parts), np.concatenate(weights))
