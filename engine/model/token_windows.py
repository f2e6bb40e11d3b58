"""Tokenize a long text in overlapping windows, with the result of tokenizing it at once.

A window is cut out of the text, so that its first and last tokens may differ from those of the
whole text. Two neighbouring windows are joined where they agree: several tokens before the place
and several after it are the same in both, with the same spans and the same beginnings of words.

- A pre-tokenizer finds words from left to right, so that from a common beginning of a word on it
  finds the same words in both windows; and every word is tokenized by itself.
- Byte-pair encoding gives a word the only sequence of tokens in which each two neighbours are what
  they are encoded to by themselves. All neighbours in the joined sequence are neighbours in one of
  the windows, so that BPE can also be joined inside a word. Other models are joined between words.
- Unicode normalisation does not look across a character that no mark can be combined with, so no
  place lies before a mark.

Where windows do not agree, the first one is doubled and tokenized again, up to a limit.
"""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tokenizers.models import BPE

from common.errors import DocumentRejected

WINDOW_CHARS = 1 << 15  # tokenizing them takes about 20 ms, during which other threads may wait
OVERLAP_CHARS = 1 << 12
MAX_WINDOW_CHARS = 1 << 17  # tokenizing them takes a second at the most, and 100 MiB
NUM_STARTS = 4  # that are tried for a window
AGREED_TOKENS = 8  # on either side of the place where two windows are joined
NO_BREAK = (
    "The document holds {chars:,} characters in a row that the model's tokenizer cannot break, "
    "more than it may be given at once."
)
Token = tuple[int, int, int, bool]  # id, first character, character after it, begins a word


@dataclass(frozen=True)
class TokenWindow:
    """Consecutive tokens of a text.

    Attributes:
        ids: the tokens' ids.
        spans: for each token, its half-open span of characters in the whole text.
    """

    ids: list[int]
    spans: list[tuple[int, int]]


class WindowedTokenizer:
    """Tokenizes texts of any length in bounded memory.

    Args:
        tokenizer: a fast tokenizer of transformers; special tokens in a text are text.
        window_chars: characters that are tokenized at a time.
        overlap_chars: characters that two neighbouring windows have in common, at most half of
            a window.
        max_window_chars: characters up to which a window may be doubled.
    """

    def __init__(
        self,
        tokenizer: Any,
        window_chars: int = WINDOW_CHARS,
        overlap_chars: int = OVERLAP_CHARS,
        max_window_chars: int = MAX_WINDOW_CHARS,
    ) -> None:
        self._tokenizer = tokenizer
        self._window_chars = window_chars
        self._overlap_chars = overlap_chars
        self._max_window_chars = max_window_chars
        model = tokenizer.backend_tokenizer.model
        self._joins_inside_words = isinstance(model, BPE) and not model.dropout

    def windows(self, text: str) -> Iterator[TokenWindow]:
        """Yield the tokens of a text part by part; together they are those of the whole text.

        Raises: DocumentRejected if a window would have to be longer than allowed.
        """
        start, end = 0, self._window_chars
        left = self._encode(text, start, end)
        unsent = 0  # the first token of `left` that has not been yielded
        while end < len(text):
            overlap = end - self._overlap_chars
            right_end = overlap + self._window_chars
            for right_start in _starts_before(left, overlap, start):
                right = self._encode(text, right_start, right_end)
                join = self._join(text, left, right, right_start)
                if join is not None and join[0] >= unsent:
                    yield _window(left[unsent : join[0]])
                    left, unsent = right, join[1]
                    start, end = right_start, right_end
                    break
            else:
                end = start + 2 * (end - start)
                left = self._encode_again(text, start, end, left[unsent:], unsent)
        yield _window(left[unsent:])

    def _encode(self, text: str, start: int, end: int) -> list[Token]:
        encoded = self._tokenizer(
            text[start:end], add_special_tokens=False, split_special_tokens=True, verbose=False
        ).encodings[0]
        tokens, previous = [], None
        columns = zip(encoded.ids, encoded.offsets, encoded.word_ids, strict=True)
        for token_id, (first, after), word in columns:
            tokens.append((token_id, start + first, start + after, word != previous))
            previous = word
        return tokens

    def _encode_again(
        self, text: str, start: int, end: int, unsent: list[Token], num_sent: int
    ) -> list[Token]:
        """Encode a longer window, whose first tokens have been yielded already.

        Raises: DocumentRejected if it is too long, or if what was yielded has changed.
        """
        tried = NO_BREAK.format(chars=(end - start) // 2)
        if end - start > self._max_window_chars:
            raise DocumentRejected(tried)
        tokens = self._encode(text, start, end)
        known = unsent[:AGREED_TOKENS]
        if num_sent and tokens[num_sent : num_sent + len(known)] != known:
            raise DocumentRejected(tried)
        return tokens

    def _join(
        self, text: str, left: list[Token], right: list[Token], right_start: int
    ) -> tuple[int, int] | None:
        """Return how many tokens of `left` come first, and the token of `right` to go on with.

        A place between two words is taken if there is one.
        """
        inside_word = None
        for first_left, first_right, length in _agreements(left, right, right_start):
            for step in range(AGREED_TOKENS, length - AGREED_TOKENS + 1):
                place = first_left + step, first_right + step
                _, first, _, begins_word = left[place[0]]
                if _joins_those_before(text[first]):
                    continue
                if begins_word:
                    return place
                inside_word = inside_word or place
        return inside_word if self._joins_inside_words else None


def _agreements(
    left: list[Token], right: list[Token], right_start: int
) -> Iterator[tuple[int, int, int]]:
    """Yield runs of equal tokens: the first one's index in `left` and in `right`, and how many."""
    i = next((i for i, token in enumerate(left) if token[1] >= right_start), len(left))
    j, length = 0, 0
    while i < len(left) and j < len(right):
        if left[i] == right[j]:
            length += 1
            i, j = i + 1, j + 1
            continue
        if length:
            yield i - length, j - length, length
            length = 0
        ahead, behind = left[i][1:3], right[j][1:3]
        i, j = i + (ahead <= behind), j + (behind <= ahead)
    if length:
        yield i - length, j - length, length


def _joins_those_before(char: str) -> bool:
    """Whether normalisation may combine a character with those before it: a mark or a jamo."""
    return unicodedata.category(char).startswith("M") or "\u1160" <= char <= "\u11ff"


def _starts_before(tokens: list[Token], place: int, lowest: int) -> Iterator[int]:
    """Yield where a window may begin: at the last word, or else token, that begins by `place`.

    Then a little before that, as a normalizer that puts a blank before a text would otherwise shift
    all tokens of a row of equal characters.

    Args:
        lowest: the window begins behind this character.
    """
    starts = [token for token in tokens if lowest < token[1] <= place]
    words = [token for token in starts[-4 * AGREED_TOKENS :] if token[3]]
    start = words[-1][1] if words else starts[-1][1] if starts else place
    yield from range(start, max(lowest, start - NUM_STARTS), -1)


def _window(tokens: list[Token]) -> TokenWindow:
    return TokenWindow([token[0] for token in tokens], [token[1:3] for token in tokens])
