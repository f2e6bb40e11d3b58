"""Batches for training: worker processes make examples, each batch of the length that is due."""

import multiprocessing as mp
import os
import queue
import re
import signal
import sys
import traceback
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from random import Random
from types import FrameType

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from training.data.answers import pool_of
from training.data.documents import Composer, Encoder, Example, Sources
from training.data.haystack import BoundaryTable, Haystack, load_haystacks
from training.data.natural import Article
from training.data.phrasing import StyleConfig
from training.data.prose import GENRES
from training.data.split import HELD_OUT_BOOKS

_TOKENS_A_PART = 32_768
_PARTS_AHEAD = 12  # open requests a worker: short sequences are made while long ones are trained on
_TRIES = 4
_LONGEST_S = 20.0  # of computing time for an example; a worker's first one takes some 4
_GENRE_SHARES = {
    "handbook": 0.1, "specification": 0.04, "minutes": 0.04, "log": 0.02, "source code": 0.02,
    "configuration": 0.01, "table": 0.02, "letters": 0.03,
}  # fmt: skip
_WRAPPED_SHARE = 0.07
_WORD = re.compile(r"(?<![A-Za-z-])[a-z]{4,11}(?![A-Za-z-])")


@dataclass(frozen=True)
class Batch:
    """ids (rows, length + 1) uint16 and weights of the same shape, uint8 hundredths."""

    ids: NDArray[np.uint16]
    weights: NDArray[np.uint8]


def vocabulary_of(tokenizer: Tokenizer) -> list[str]:
    """Tokens in the request of their ids."""
    return [tokenizer.id_to_token(place) or "" for place in range(tokenizer.get_vocab_size())]


def load_sources(prepared: Path, tokenizer: Tokenizer, articles: list[Article]) -> Sources:
    """Training's haystacks with their shares: books mostly, then wrapped books and genres."""
    table = BoundaryTable(vocabulary_of(tokenizer))
    kept = [one for one in load_haystacks(prepared, table) if one.name not in HELD_OUT_BOOKS]
    return make_sources(kept, articles)


def make_sources(haystacks: list[Haystack], articles: list[Article]) -> Sources:
    """Haystacks with their shares, articles, and the words and answers of these."""
    passages = [passage for article in articles for passage in article.passages]
    pool = pool_of(pair for passage in passages for pair in passage.questions)
    return Sources(haystacks, _shares(haystacks), articles, _lexicon(articles), pool)


def training_style(style: StyleConfig, sources: Sources) -> StyleConfig:
    """A style as training wants it: more refusals, joint questions, carelessness and words."""
    return replace(style, refusals=0.28, extras=0.3, own=0.4, noise=0.06, lexicon=sources.lexicon)


def _lexicon(articles: list[Article]) -> tuple[str, ...]:
    """Lower-case words that stand in some articles, neither rare nor in all of them."""
    counts = Counter(
        word
        for article in articles
        for word in set(_WORD.findall(" ".join(passage.text for passage in article.passages)))
    )
    return tuple(sorted(word for word, count in counts.items() if 3 <= count <= 150))


def _shares(haystacks: list[Haystack]) -> list[float]:
    num_wrapped = sum(one.name.endswith("(wrapped)") for one in haystacks)
    num_books = sum(one.name not in GENRES for one in haystacks) - num_wrapped
    books = 1 - _WRAPPED_SHARE - sum(_GENRE_SHARES.values())
    return [
        _GENRE_SHARES.get(
            one.name,
            _WRAPPED_SHARE / max(1, num_wrapped)
            if one.name.endswith("(wrapped)")
            else books / max(1, num_books),
        )
        for one in haystacks
    ]


class BatchLoader:
    """Batches made in advance by processes; what is in them follows from the seed alone."""

    def __init__(
        self, tokenizer_file: Path, sources: Sources, style: StyleConfig, *, workers: int, seed: int
    ) -> None:
        context = mp.get_context("fork")  # the workers share the haystacks' memory
        self._seed, self._most_open = seed, _PARTS_AHEAD * workers
        self._run: Synchronized[int] = context.Value("i", 0)
        self._failed: Synchronized[int] = context.Value("i", 0)
        self._requests: mp.Queue[_PartRequest] = context.Queue()
        self._parts: mp.Queue[_Part] = context.Queue()
        counts, channels = (self._run, self._failed), (self._requests, self._parts)
        arguments = (tokenizer_file, sources, style, *counts, *channels)
        self._processes = [
            context.Process(target=_work, args=arguments, daemon=True) for _ in range(workers)
        ]
        for process in self._processes:
            process.start()

    def batches(self, lengths: Iterator[int], tokens: int) -> Iterator[Batch]:
        """A batch of about `tokens` tokens for each of endless lengths.

        A later call drops what is still open of an earlier one.
        Raises: TimeoutError if nothing was made for two minutes.
        """
        self._run.value += 1
        run, num_open = self._run.value, 0
        requested: deque[list[_PartRequest]] = deque()
        made: dict[tuple[int, int], _Part] = {}
        for number, length in enumerate(lengths):
            requested.append(_split(run, number, length, max(1, tokens // length), self._seed))
            for request in requested[-1]:
                self._requests.put(request)
            num_open += len(requested[-1])
            while num_open >= self._most_open:
                requests = requested.popleft()
                for request in requests:
                    while (request.number, request.part) not in made:
                        part = self._take()
                        if part.request.run == run:
                            made[part.request.number, part.request.part] = part
                num_open -= len(requests)
                yield _gather([made.pop((request.number, request.part)) for request in requests])

    @property
    def num_failed(self) -> int:
        """Examples that failed or took too long; others took their places."""
        return self._failed.value

    def _take(self) -> "_Part":
        try:
            return self._parts.get(timeout=120)
        except queue.Empty:
            raise TimeoutError("no example was made for two minutes") from None

    def close(self) -> None:
        """End the worker processes."""
        for process in self._processes:
            process.terminate()
            process.join()
        for channel in (self._requests, self._parts):
            channel.cancel_join_thread()
            channel.close()


@dataclass(frozen=True)
class _PartRequest:
    """A part of a batch that is to be made."""

    run: int
    number: int
    part: int
    length: int
    rows: int
    seed: int


@dataclass(frozen=True)
class _Part:
    """A part of a batch: ids and weights as bytes."""

    request: _PartRequest
    ids: bytes
    weights: bytes


def _split(run: int, number: int, length: int, rows: int, seed: int) -> list[_PartRequest]:
    most = max(1, _TOKENS_A_PART // length)
    sizes = [min(most, rows - start) for start in range(0, rows, most)]
    return [_PartRequest(run, number, part, length, size, seed) for part, size in enumerate(sizes)]


def _gather(parts: list[_Part]) -> Batch:
    width = parts[0].request.length + 1
    ids = np.frombuffer(b"".join(part.ids for part in parts), np.uint16)
    weights = np.frombuffer(b"".join(part.weights for part in parts), np.uint8)
    return Batch(ids.reshape(-1, width), weights.reshape(-1, width))


def _work(
    tokenizer_file: Path,
    sources: Sources,
    style: StyleConfig,
    run: "Synchronized[int]",
    num_failed: "Synchronized[int]",
    requests: "mp.Queue[_PartRequest]",
    parts: "mp.Queue[_Part]",
) -> None:
    parent = os.getppid()
    encoder = Encoder(Tokenizer.from_file(str(tokenizer_file)))
    composer = Composer(encoder, sources, training_style(style, sources))
    while os.getppid() == parent:  # an orphan ends
        try:
            request = requests.get(timeout=10)
        except queue.Empty:
            continue
        if request.run == run.value:
            rng = Random(f"{request.seed} {request.run} {request.number} {request.part}")
            examples = [
                _compose(composer, request.length, rng, num_failed) for _ in range(request.rows)
            ]
            ids = np.stack([one.ids for one in examples])
            weights = np.stack([one.weights for one in examples])
            parts.put(_Part(request, ids.tobytes(), weights.tobytes()))


def _compose(
    composer: Composer, length: int, rng: Random, num_failed: "Synchronized[int]"
) -> Example:
    """Make an example; one that fails or takes too long is reported and the next one is taken.

    Raises: RuntimeError if as many as _TRIES in a row fail.
    """
    for _ in range(_TRIES):
        seed = rng.getrandbits(64)
        try:
            with _time_limit(_LONGEST_S):
                return composer.example(length, Random(seed))
        except Exception:  # one draw in a million must not end a training
            print(f"no example of {length} tokens by seed {seed}", file=sys.stderr)
            traceback.print_exc()
            with num_failed.get_lock():
                num_failed.value += 1
    raise RuntimeError(f"{_TRIES} examples of {length} tokens failed")


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError inside the body if it computes longer; for a process's main thread.

    Time spent waiting for a core does not count: workers may be more than cores.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise TimeoutError(f"still at it after {seconds} s of computing")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
