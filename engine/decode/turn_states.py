"""What is kept for a while of earlier turns, for the next question of their conversation.

That is their keys and values, and the token ids of their texts.

A turn is prefilled in parts of its own (see `PromptTemplate.question_parts`), so that its keys and
values are the same whether they were kept or are computed again: an answer never depends on it.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from engine.model.prompt import Ids, Tokenize


@dataclass(frozen=True)
class DocumentKey:
    """What turns are about.

    Attributes:
        owner: with whom they go, see `TurnStates.drop`: a document, or a tenant without one.
        reading: names the cache of the document that they were computed on.
    """

    owner: Hashable
    reading: Hashable


@dataclass(frozen=True)
class TurnsKey:
    """What keys and values of turns depend on beside their tokens.

    Attributes:
        budget: share of the document cache's bytes that was applied, in (0, 1].
    """

    document: DocumentKey
    budget: float


@dataclass(frozen=True)
class KeptTurns:
    """Keys and values of the first turns of a conversation.

    Attributes:
        num_turns, num_tokens: that they are of.
        keys, values: by layer (kv_heads, tokens, head_dim).
    """

    num_turns: int
    num_tokens: int
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]


@dataclass
class _Turn:
    """One turn's own keys and values; those of the turns before it are kept apart.

    Attributes:
        states: of runs of layers that have equal shapes, on the CPU:
            (layers, 2, kv_heads, tokens, head_dim).
    """

    states: tuple[Tensor, ...]
    until_s: float

    @property
    def num_bytes(self) -> int:
        return sum(state.nbytes for state in self.states)


_Place = tuple[TurnsKey, bytes]  # and a hash of all tokens up to the turn's end
MOST_TEXT_CHARS = 1 << 22  # of texts whose token ids are remembered


class TurnStates:
    """Keeps turns within a number of bytes, those that were used last; thread-safe.

    Args:
        most_bytes: of all turns together, in the host's memory; 0 to keep none.
        keep_s: seconds for which a turn is kept after its last use.
        clock: returns seconds.
    """

    def __init__(
        self, most_bytes: int, keep_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most_bytes = most_bytes
        self._keep_s = keep_s
        self._clock = clock
        self._lock = threading.Lock()
        self._turns: OrderedDict[_Place, _Turn] = OrderedDict()  # the least recently used one first
        self._num_bytes = 0
        # Token ids of texts, and until when; the least recently used one first.
        self._ids: OrderedDict[tuple[Hashable, str], tuple[Ids, float]] = OrderedDict()
        self._num_chars = 0

    @property
    def num_bytes(self) -> int:
        """Bytes of all turns that are kept."""
        return self._num_bytes

    def find(
        self, key: TurnsKey, turns: Sequence[Sequence[int]], device: torch.device
    ) -> KeptTurns | None:
        """Return the longest beginning of a conversation that is kept.

        Args:
            turns: token ids of each turn, oldest first.
            device: on which its keys and values are returned; nothing waits for a GPU.
        Returns: None if not even the first turn is kept.
        """
        found: list[_Turn] = []
        with self._lock:
            self._expire()
            places = _places(key, turns)
            for place in places:
                if (turn := self._turns.get(place)) is None:
                    break
                found.append(turn)
            self._touch(places[: len(found)])
        if not found:
            return None
        keys: list[Tensor] = []
        values: list[Tensor] = []
        for parts in zip(*(turn.states for turn in found), strict=True):
            state = torch.cat([part.to(device, non_blocking=True) for part in parts], dim=3)
            keys += state[:, 0].unbind()
            values += state[:, 1].unbind()
        num_tokens = sum(map(len, turns[: len(found)]))
        return KeptTurns(len(found), num_tokens, tuple(keys), tuple(values))

    def add(
        self,
        key: TurnsKey,
        turns: Sequence[Sequence[int]],
        keys_and_values: Iterable[tuple[Tensor, Tensor]],
    ) -> None:
        """Keep a conversation's turns.

        Args:
            turns: token ids of each turn, oldest first.
            keys_and_values: by layer, of all these tokens and perhaps more, each
                (kv_heads, tokens, head_dim).
        """
        places, layers = _places(key, turns), tuple(keys_and_values)
        with self._lock:
            missing = [index for index, place in enumerate(places) if place not in self._turns]
        ends = np.cumsum([len(turn) for turn in turns]).tolist()
        made = {}
        for index in missing:
            span = slice(ends[index] - len(turns[index]), ends[index])
            states = (_on_cpu(run, span) for run in _runs(layers))
            made[places[index]] = _Turn(tuple(states), until_s=0.0)
        with self._lock:
            self._expire()
            for place, turn in made.items():
                self._remove(place)
                self._turns[place] = turn
                self._num_bytes += turn.num_bytes
            self._touch([place for place in places if place in self._turns])
            while self._num_bytes > self._most_bytes:
                self._remove(next(iter(self._turns)))

    def ids(self, owner: Hashable, text: str, tokenize: Tokenize) -> Ids:
        """Tokenize the text of a turn, or remember what that gave before.

        Every question of a conversation has all its earlier turns again. Nobody's text makes
        another owner's question quicker.

        Args:
            owner: as of `DocumentKey`.
        """
        if self._most_bytes == 0:
            return tokenize(text)
        with self._lock:
            known = self._forget_text((owner, text))
        ids = tokenize(text) if known is None else known
        with self._lock:
            self._forget_text((owner, text))  # another thread's, meanwhile
            self._ids[owner, text] = ids, self._clock() + self._keep_s
            self._num_chars += len(text)
            self._expire()
            while self._num_chars > MOST_TEXT_CHARS:
                self._forget_text(next(iter(self._ids)))
        return ids

    def drop(self, owner: Hashable) -> None:
        """Forget all turns of a document."""
        with self._lock:
            for text in [one for one in self._ids if one[0] == owner]:
                self._forget_text(text)
            for place in [one for one in self._turns if one[0].document.owner == owner]:
                self._remove(place)

    def owners(self) -> frozenset[Hashable]:
        """Forget what was kept long enough; return with whom the rest goes, texts included."""
        with self._lock:
            self._expire()
            of_turns = {key.document.owner for key, _ in self._turns}
            return frozenset(of_turns | {owner for owner, _ in self._ids})

    def _touch(self, places: Sequence[_Place]) -> None:
        """Note a use. Later turns come first, so that none outlives the turns before it."""
        until_s = self._clock() + self._keep_s
        for place in reversed(places):
            self._turns.move_to_end(place)
            self._turns[place].until_s = until_s

    def _expire(self) -> None:
        now_s = self._clock()
        while self._turns and next(iter(self._turns.values())).until_s <= now_s:
            self._remove(next(iter(self._turns)))
        while self._ids and next(iter(self._ids.values()))[1] <= now_s:
            self._forget_text(next(iter(self._ids)))

    def _forget_text(self, text: tuple[Hashable, str]) -> Ids | None:
        """Forget an owner's text; return the token ids that were known."""
        ids, _ = self._ids.pop(text, (None, 0.0))
        if ids is not None:
            self._num_chars -= len(text[1])
        return ids

    def _remove(self, place: _Place) -> None:
        if (turn := self._turns.pop(place, None)) is not None:
            self._num_bytes -= turn.num_bytes


def _places(key: TurnsKey, turns: Sequence[Sequence[int]]) -> list[_Place]:
    """Where each turn is kept."""
    state, places = sha256(), []
    for turn in turns:
        state.update(np.asarray([len(turn), *turn], dtype=np.int64).tobytes())
        places.append((key, state.digest()))
    return places


def _runs(layers: Sequence[tuple[Tensor, Tensor]]) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Keys and values of layers that follow each other and have equal shapes."""
    for _, run in groupby(layers, key=lambda layer: layer[0].shape):
        yield list(run)


def _on_cpu(layers: Sequence[tuple[Tensor, Tensor]], tokens: slice) -> Tensor:
    """Copy some tokens' keys and values into memory of their own, from which a GPU copies fast.

    Returns: (layers, 2, kv_heads, tokens, head_dim).
    """
    parts = [torch.stack((keys[:, tokens], values[:, tokens])) for keys, values in layers]
    state = torch.stack(parts).detach()
    kept = torch.empty(state.shape, dtype=state.dtype, pin_memory=state.is_cuda)
    return kept.copy_(state)
