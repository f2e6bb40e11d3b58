"""Decoding that can only write passages of a document, joined, or the refusal.

An answer is one quote, or several with joints between them, or the refusal. What was written so far
can often be read in several ways (a comma may stand in the document, or join two quotes); all of
them are followed at the same time, and for each all places of the document that it could be.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from common.errors import EngineFault
from engine.decode.quotable_text import QuotableText
from engine.decode.token_trie import Places, with_single_spaces

# What may stand between two quotes, before a space.
JOINTS = (b",", b";", b", and", b" and", b", or", b" or", b" as well as", b" /", b" |")
MOST_QUOTES = 16  # of an answer
MOST_PLACES = 4096  # of a quote, of which one is chosen


@dataclass(frozen=True)
class Quoted:
    """A quote within what was written.

    Attributes:
        begin, end: its half-open span in the bytes of the answer.
        places: where it stands in the bytes of the document: all the places where it could begin.
        is_recased: whether its first letter was written in the other case than the document's.
    """

    begin: int
    end: int
    places: Places
    is_recased: bool = False


@dataclass(frozen=True)
class Between:
    """A reading in which the next quote has not begun yet.

    Attributes:
        quotes: those before it.
        has_space: whether the space before the quote was written.
    """

    quotes: tuple[Quoted, ...]
    has_space: bool


@dataclass(frozen=True)
class Inside:
    """A reading within a quote.

    Attributes:
        quotes: those before it.
        begin: where it begins in the bytes of the answer.
        places: where it may go on in the bytes of the document.
        is_recased: as of `Quoted`.
    """

    quotes: tuple[Quoted, ...]
    begin: int
    places: Places
    is_recased: bool = False

    def ended(self, end: int, places: Places) -> tuple[Quoted, ...]:
        """The quotes, the present one included, if it ends before `places` of the document."""
        last = Quoted(self.begin, end, places - (end - self.begin), self.is_recased)
        return (*self.quotes, last)


@dataclass(frozen=True)
class Joining:
    """A reading within a joint, or in the refusal.

    Attributes:
        quotes: those before it.
        left: what is left of it; b"" only for a refusal that is complete.
        refuses: whether it is the refusal.
    """

    quotes: tuple[Quoted, ...]
    left: bytes
    refuses: bool = False


Reading = Between | Inside | Joining


@dataclass(frozen=True)
class QuoteCandidates:
    """A quote of an answer that has ended, and all places where it stands.

    Attributes:
        answer_start, answer_end: its half-open span in the characters of the answer's text.
        spans: half-open spans of characters in the document; at least one.
    """

    answer_start: int
    answer_end: int
    spans: tuple[tuple[int, int], ...]


class QuoteDecoder:
    """Says which tokens may come, and turns those that came into text; for one answer.

    It takes the place of a detokenizer: its text is that of the document.

    Args:
        source: the document's text.
        refusal: the sentence that says that the document holds no answer.
        ends: the tokens that end an answer.
        device: on which masks are made.

    Attributes:
        text: of the answer so far.
    """

    def __init__(
        self, source: QuotableText, refusal: str, ends: Sequence[int], device: torch.device
    ) -> None:
        self.source = source
        self._refusal = with_single_spaces(refusal.strip().encode())
        self._ends, self._device = np.array(ends, dtype=np.int64), device
        self._readings: list[Reading] = [Between((), has_space=False)]
        self._written = b""
        self.text = ""

    def allowed(self) -> Tensor:
        """Return the tokens that may follow, (vocabulary of the tokenizer,) bool on the device."""
        ids = self.allowed_tokens()
        chosen = torch.from_numpy(ids)
        if self._device.type == "cuda":
            chosen = chosen.pin_memory().to(self._device, non_blocking=True)
        size = len(self.source.trie.written)
        size = max(size, int(self._ends.max(initial=-1)) + 1)
        mask = torch.zeros(size, dtype=torch.bool, device=self._device)
        return mask.index_fill_(0, chosen, True)

    def allowed_tokens(self) -> Places:
        """Return the ids of the tokens that may follow; those that end the answer if none may.

        One that may follow in several readings may come more than once.
        """
        ids = np.concatenate([self._tokens(reading) for reading in self._readings])
        if not len(ids) or any(map(self._may_end, self._readings)):
            return np.concatenate((ids, self._ends))
        return ids

    def push(self, token: int) -> str:
        """Add a token that may come; return the text that is certain now.

        Raises: EngineFault if it may not.
        """
        known = self.source.trie.written
        written = known[token] if token < len(known) else b""
        if not written:  # a token that would have ended the answer
            return ""
        stripped = written if self._written else written.removeprefix(b" ")
        if not stripped:
            self._readings = [Between((), has_space=True)]
            return ""
        at = len(self._written)
        self._written += stripped
        found = [new for one in self._readings for new in self._advance(one, written, stripped, at)]
        if not found:
            raise EngineFault("A token was drawn that may not stand in a quoting answer.")
        self._readings = _distinct(found)
        return self._show(self._undecided())

    def flush(self) -> str:
        """Return what was held back while the case of a quote's first letter was not decided.

        What is no whole character is no part of the text.
        """
        for quote in self._best_reading():
            if quote.is_recased:
                self._recase(quote.begin)
        return self._show(len(self._written))

    def _show(self, end: int) -> str:
        """Return what is new of the text up to a byte."""
        text = self._written[:end].decode(errors="ignore").rstrip(" ")  # shown with what follows
        piece, self.text = text[len(self.text) :], text
        return piece

    def _undecided(self) -> int:
        """Where the text ends that all readings have alike, in the document's own case."""
        known = [_cases(reading) for reading in self._readings]
        for begin in sorted({begin for cases in known for begin in cases}):
            found = {cases.get(begin, False) for cases in known}
            if len(found) > 1:
                return begin
            if found == {True}:
                self._recase(begin)
        return len(self._written)

    def _recase(self, begin: int) -> None:
        """Write a quote's first letter as the document does; its readings take it as decided."""
        data = bytearray(self._written)
        data[begin] ^= 0x20
        self._written = bytes(data)
        self._readings = [_decided(reading, begin) for reading in self._readings]

    def quotes(self, text: str) -> tuple[QuoteCandidates, ...]:
        """Read the answer that has come to its end, in as few quotes as it can be read in.

        Args:
            text: of the answer; a stop string may have cut it shorter than `self.text`.
        Returns: its quotes; none for a refusal, and for a part of one.
        """
        cut, found = len(text.encode()), []
        for quote in self._best_reading():
            end = min(quote.end, cut)
            if end <= quote.begin:
                break
            starts = quote.places[:MOST_PLACES].tolist()
            spans = [self.source.span(start, start + end - quote.begin) for start in starts]
            begin = len(self._written[: quote.begin].decode())
            shown = self._written[quote.begin : end].decode(errors="ignore").rstrip(" ")
            if shown:
                found.append(QuoteCandidates(begin, begin + len(shown), tuple(spans)))
        return tuple(found)

    def _best_reading(self) -> tuple[Quoted, ...]:
        """The quotes of the reading that may end here with the fewest of them, or of any."""
        end, best = len(self._written), None
        may_end = [one for one in self._readings if self._may_end(one)]
        for reading in sorted(may_end or self._readings, key=_preference):
            if isinstance(reading, Joining) and reading.refuses:
                return ()
            quotes = reading.quotes
            if isinstance(reading, Inside):
                ends = reading.places[self.source.can_end[reading.places]]
                quotes = reading.ended(end, ends if len(ends) else reading.places)
            if best is None or len(quotes) < len(best):
                best = quotes
        return best or ()

    # -- what may come ---------------------------------------------------------------------------

    @cached_property
    def _joints(self) -> Places:
        trie = self.source.trie
        return np.array(sorted({node for joint in JOINTS for node in trie.spell(joint)}), dtype=int)

    def _tokens(self, reading: Reading) -> Places:
        """The ids of all tokens that a reading can go on with."""
        trie, source = self.source.trie, self.source
        if isinstance(reading, Inside):
            nodes = source.reachable(reading.places)
            if self._may_join(reading):
                nodes = np.concatenate((nodes, self._joints))
            return trie.tokens(nodes)
        if isinstance(reading, Joining):
            return trie.tokens(np.array(trie.spell(reading.left), dtype=int))
        at_once = reading.has_space or not reading.quotes  # else it needs a space
        parts = [source.beginnings(with_space=False)] if at_once else []
        if not reading.has_space:
            parts.append(source.beginnings(with_space=True))
        if not reading.quotes:
            parts.append(trie.tokens(np.array(trie.spell(self._refusal), dtype=int)))
            if not reading.has_space:
                parts.append(trie.tokens(np.array(trie.spell(b" " + self._refusal), dtype=int)))
        return np.concatenate(parts)

    def _may_join(self, reading: Inside) -> bool:
        is_last = len(reading.quotes) + 1 >= MOST_QUOTES
        return not is_last and bool(self.source.can_end[reading.places].any())

    def _may_end(self, reading: Reading) -> bool:
        if isinstance(reading, Inside):
            return bool(self.source.can_end[reading.places].any())
        return isinstance(reading, Joining) and reading.refuses and not reading.left

    # -- what has come ---------------------------------------------------------------------------

    def _advance(self, reading: Reading, written: bytes, stripped: bytes, at: int) -> list[Reading]:
        """The readings that a reading becomes with a token; none if the token does not fit.

        Args:
            written: the token's bytes; stripped: without the space before the answer.
            at: where they stand in the bytes of the answer.
        """
        if isinstance(reading, Joining):
            return self._advance_joint(reading, stripped)
        if isinstance(reading, Between):
            return self._advance_between(reading, written, stripped, at)
        found: list[Reading] = []
        places = self.source.follow(reading.places, stripped)
        if len(places):
            found.append(replace(reading, places=places))
        if self._may_join(reading):
            ends = reading.places[self.source.can_end[reading.places]]
            quotes = reading.ended(at, ends)
            found += [
                _joining(quotes, joint[len(stripped) :])
                for joint in JOINTS
                if joint.startswith(stripped)
            ]
        return found

    def _advance_joint(self, reading: Joining, written: bytes) -> list[Reading]:
        if not reading.left.startswith(written) or not written:
            return []
        left = reading.left[len(written) :]
        return [replace(reading, left=left) if reading.refuses else _joining(reading.quotes, left)]

    def _advance_between(
        self, reading: Between, written: bytes, stripped: bytes, at: int
    ) -> list[Reading]:
        brings_space = written.startswith(b" ")
        needs_space = bool(reading.quotes) and not reading.has_space
        if (brings_space and reading.has_space) or (needs_space and not brings_space):
            return []
        begun = written.removeprefix(b" ")
        if not begun:
            return [replace(reading, has_space=True)]
        found: list[Reading] = []
        begin = at + len(stripped) - len(begun)
        places = self.source.follow_from_start(begun)
        if len(places):
            found.append(Inside(reading.quotes, begin, places))
        if begun[:1].isalpha():  # of ASCII's letters: a sentence's first one is a capital
            other = begun[:1].swapcase() + begun[1:]
            places = self.source.follow_from_start(other)
            if len(places):
                found.append(Inside(reading.quotes, begin, places, is_recased=True))
        if not reading.quotes and self._refusal.startswith(begun):
            found.append(Joining((), self._refusal[len(begun) :], refuses=True))
        return found


def _joining(quotes: tuple[Quoted, ...], left: bytes) -> Joining | Between:
    return Joining(quotes, left) if left else Between(quotes, has_space=False)


def _cases(reading: Reading) -> dict[int, bool]:
    """By its beginning, whether each quote of a reading is recased."""
    cases = {quote.begin: quote.is_recased for quote in reading.quotes}
    return cases | ({reading.begin: reading.is_recased} if isinstance(reading, Inside) else {})


def _decided(reading: Reading, begin: int) -> Reading:
    """A reading in which the quote that begins there has the document's case."""
    quotes = tuple(
        replace(quote, is_recased=False) if quote.begin == begin else quote
        for quote in reading.quotes
    )
    if isinstance(reading, Inside) and reading.begin == begin:
        return replace(reading, quotes=quotes, is_recased=False)
    return replace(reading, quotes=quotes)


def _preference(reading: Reading) -> tuple[int, int]:
    """Fewer quotes come first, then fewer letters in another case."""
    return len(reading.quotes), sum(_cases(reading).values())


def _distinct(readings: list[Reading]) -> list[Reading]:
    """Of readings that go on alike, keep the one with the fewest quotes."""
    kept: dict[tuple[object, ...], Reading] = {}
    for reading in sorted(readings, key=_preference):
        if isinstance(reading, Inside):
            key: tuple[object, ...] = (Inside, reading.begin, reading.is_recased)
        elif isinstance(reading, Joining):
            key = (Joining, reading.left, reading.refuses)
        else:
            key = (Between, reading.has_space)
        kept.setdefault(key, reading)
    return list(kept.values())
