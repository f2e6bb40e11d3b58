"""Haystacks: long token arrays with the places where something may be inserted."""

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint16]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Haystack:
    """One source of filler.

    Attributes:
        name: a book's file name or a genre.
        ids: (tokens,) uint16.
        inner: places between two sentences of a paragraph, ascending.
        outer: places at the start of a line, ascending.
    """

    name: str
    ids: Ids
    inner: Places
    outer: Places


@dataclass(frozen=True)
class Slice:
    """A stretch of a haystack; places are relative to its start."""

    ids: Ids
    inner: Places
    outer: Places


class BoundaryTable:
    """Which tokens end a sentence, end a line or start a word."""

    def __init__(self, vocabulary: list[str]) -> None:
        # Byte-level BPE writes a space as U+0120 and a newline as U+010A.
        tails = (".", "!", "?", '."', '?"', '!"')
        self._stops = np.array([token.endswith(tails) for token in vocabulary])
        self._breaks = np.array([token.endswith("\u010a") for token in vocabulary])
        self._spaced = np.array([token.startswith("\u0120") for token in vocabulary])

    def haystack(self, name: str, ids: Ids) -> Haystack:
        """Find the places where a sentence or a line may be put in."""
        before, after = ids[:-1], ids[1:]
        inner = np.flatnonzero(self._stops[before] & self._spaced[after]) + 1
        outer = np.flatnonzero(self._breaks[before] & ~self._breaks[after]) + 1
        return Haystack(name, ids, inner, outer)


def draw_slice(haystack: Haystack, num_tokens: int, rng: Random) -> Slice:
    """Cut num_tokens from a haystack, from the start of a line or sentence; it wraps around."""
    total = len(haystack.ids)
    starts = haystack.outer if len(haystack.outer) > 4 and rng.random() < 0.5 else haystack.inner
    start = int(starts[int(rng.random() * len(starts))]) if len(starts) else 0
    if start + num_tokens > total:
        start = max(0, total - num_tokens) if num_tokens <= total else 0
    ids = haystack.ids[start : start + num_tokens]
    if len(ids) < num_tokens:
        ids = np.resize(haystack.ids, num_tokens)
    stop = start + len(ids)
    return Slice(ids, _within(haystack.inner, start, stop), _within(haystack.outer, start, stop))


def _within(places: Places, start: int, stop: int) -> Places:
    first, last = np.searchsorted(places, (start, stop))
    return places[first:last] - start


def save_haystacks(folder: Path, haystacks: dict[str, Ids]) -> None:
    """Write all token arrays as one file with an index."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "haystacks.npy", np.concatenate(list(haystacks.values())))
    index = {name: len(ids) for name, ids in haystacks.items()}
    (folder / "haystacks.json").write_text(json.dumps(index))


def load_haystacks(folder: Path, table: BoundaryTable) -> list[Haystack]:
    """Read what save_haystacks wrote.

    Raises: FileNotFoundError if `python -m training.prepare` has not been run.
    """
    ids = np.load(folder / "haystacks.npy")
    index: dict[str, int] = json.loads((folder / "haystacks.json").read_text())
    ends = np.cumsum(list(index.values()))
    return [
        table.haystack(name, ids[end - size : end])
        for (name, size), end in zip(index.items(), ends.tolist(), strict=True)
    ]
