"""Feed training: worker processes make examples, a thread gathers batches."""

import multiprocessing as mp
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from reader.data.documents import Composer, Encoder, Sources
from reader.data.haystack import BoundaryTable, Haystack, load_haystacks
from reader.data.natural import Article
from reader.data.prose import GENRES
from reader.data.speech import Voice
from reader.data.split import HELD_OUT_BOOKS

_TOKENS_A_PARCEL = 32_768
_GENRE_SHARES = {
    "handbook": 0.1, "specification": 0.04, "minutes": 0.04, "log": 0.02, "source code": 0.02,
    "configuration": 0.01,
}  # fmt: skip
_WRAPPED_SHARE = 0.07


@dataclass(frozen=True)
class Batch:
    """ids (rows, length + 1) uint16 and weights of the same shape, uint8 hundredths."""

    ids: NDArray[np.uint16]
    weights: NDArray[np.uint8]


def vocabulary_of(tokenizer: Tokenizer) -> list[str]:
    """Tokens in the order of their ids."""
    return [tokenizer.id_to_token(place) or "" for place in range(tokenizer.get_vocab_size())]


def load_sources(prepared: Path, tokenizer: Tokenizer, articles: list[Article]) -> Sources:
    """Training's haystacks with their shares: books mostly, then wrapped books and genres."""
    table = BoundaryTable(vocabulary_of(tokenizer))
    kept = [one for one in load_haystacks(prepared, table) if one.name not in HELD_OUT_BOOKS]
    return Sources(kept, _shares(kept), articles)


def _shares(haystacks: list[Haystack]) -> list[float]:
    num_wrapped = sum(one.name.endswith("(wrapped)") for one in haystacks)
    num_books = len(haystacks) - num_wrapped - len(GENRES)
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


class Feed:
    """Batches of the current length, made by processes that are told when it changes."""

    def __init__(
        self, tokenizer_file: Path, sources: Sources, voice: Voice, *, workers: int, seed: int
    ) -> None:
        context = mp.get_context("fork")  # the workers share the haystacks' memory
        self._length = context.Value("i", 512)
        self._parcels: mp.Queue[tuple[int, bytes, bytes]] = context.Queue(maxsize=6 * workers)
        self._stopping = threading.Event()
        self._processes = [
            context.Process(
                target=_work,
                args=(tokenizer_file, sources, voice, seed + place, self._length, self._parcels),
                daemon=True,
            )
            for place in range(workers)
        ]
        for process in self._processes:
            process.start()

    def batches(self, length: int, rows: int) -> Iterator[Batch]:
        """Batches of one length, without end; a later call changes the length."""
        self._length.value = length
        ready: queue.Queue[Batch] = queue.Queue(maxsize=4)
        done = threading.Event()
        threading.Thread(target=self._gather, args=(length, rows, ready, done), daemon=True).start()
        try:
            while True:
                yield ready.get(timeout=120)
        finally:
            done.set()

    def _gather(
        self, length: int, rows: int, ready: "queue.Queue[Batch]", done: threading.Event
    ) -> None:
        ids = np.empty((0, length + 1), np.uint16)
        weights = np.empty((0, length + 1), np.uint8)
        while not done.is_set():
            try:
                size, raw_ids, raw_weights = self._parcels.get(timeout=1)
            except queue.Empty:
                continue
            if size != length:
                continue
            ids = np.concatenate([ids, np.frombuffer(raw_ids, np.uint16).reshape(-1, length + 1)])
            new = np.frombuffer(raw_weights, np.uint8).reshape(-1, length + 1)
            weights = np.concatenate([weights, new])
            while len(ids) >= rows and not done.is_set():
                batch = Batch(ids[:rows], weights[:rows])
                if _put(ready, batch, done):
                    ids, weights = ids[rows:], weights[rows:]

    def close(self) -> None:
        """End the worker processes."""
        for process in self._processes:
            process.terminate()
            process.join()
        self._parcels.cancel_join_thread()


def _put(ready: "queue.Queue[Batch]", batch: Batch, done: threading.Event) -> bool:
    while not done.is_set():
        try:
            ready.put(batch, timeout=0.5)
        except queue.Full:
            continue
        return True
    return False


def _work(
    tokenizer_file: Path,
    sources: Sources,
    voice: Voice,
    seed: int,
    length: "Synchronized[int]",
    parcels: "mp.Queue[tuple[int, bytes, bytes]]",
) -> None:
    composer = Composer(Encoder(Tokenizer.from_file(str(tokenizer_file))), sources, voice)
    rng = Random(seed)
    while True:
        size = length.value
        examples = [composer.example(size, rng) for _ in range(max(1, _TOKENS_A_PARCEL // size))]
        ids = np.stack([one.ids for one in examples])
        weights = np.stack([one.weights for one in examples])
        parcels.put((size, ids.tobytes(), weights.tobytes()))
