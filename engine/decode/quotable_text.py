"""A document's text as quotes are taken from it: where one may begin, and where it may end."""

import unicodedata
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.decode.token_trie import NO_BYTE, ROOT, Places, TokenTrie

SPACE = ord(" ")
# Scripts that write words without spaces between them: Thai, Lao, Burmese, Khmer, kana, ideographs.
_UNSPACED = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3040, 0x30FF), (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF),
)  # fmt: skip


class QuotableText:
    """A text in bytes of UTF-8 with a space for each run of white space.

    A quote begins and ends between words, and neither within a number such as 3.5.

    Args:
        text: of the document.
        trie: of the model's tokens.

    Attributes:
        trie: as given.
        data: the bytes, followed by some that no token holds.
        starts: where a quote may begin (places,).
        can_end: by place, whether a quote may end before it.
    """

    def __init__(self, text: str, trie: TokenTrie) -> None:
        self.trie, self._text = trie, text
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        blank = _where(points, str.isspace)
        kept = np.flatnonzero(~(blank & np.concatenate(([False], blank[:-1]))))
        chars = np.where(blank[kept], SPACE, points[kept])
        cut = _boundaries(chars)  # (characters + 1,)
        sizes = 1 + (chars > 0x7F) + (chars > 0x7FF) + (chars > 0xFFFF)
        places = np.concatenate(([0], np.cumsum(sizes)))
        encoded = chars.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
        data = np.frombuffer(encoded.encode("utf-8", "surrogatepass"), dtype=np.uint8)
        filler = np.full(trie.depth + 1, NO_BYTE, dtype=np.uint8)
        self.data: NDArray[np.uint8] = np.concatenate((data, filler))
        self._chars = np.repeat(kept.astype(np.int32), sizes)
        self.starts: Places = places[:-1][cut[:-1] & (chars != SPACE)]
        first = self.data[self.starts]
        self._by_first_byte = self.starts[np.argsort(first, kind="stable")]
        self._bounds = np.searchsorted(np.sort(first), np.arange(257)).tolist()
        self.can_end: NDArray[np.bool_] = np.zeros(len(data) + 1, dtype=bool)
        self.can_end[places[cut]] = True
        space = trie.spell(b" ")
        at_once = self._first_nodes(ROOT)
        spaced = self._first_nodes(space[0]) if space else at_once[:0]
        spaced = np.union1d(spaced, np.array(space, dtype=int))
        self._beginnings = {False: trie.tokens(at_once), True: trie.tokens(spaced)}

    def _first_nodes(self, node: int) -> Places:
        """Nodes on the way of all quotes from a node, with either case of their first letter."""
        first = self.data[self.starts]
        is_letter = (first | 0x20 >= ord("a")) & (first | 0x20 <= ord("z"))
        letters = self.starts[is_letter]
        other = self.trie.child(np.full(len(letters), node), self.data[letters] ^ np.uint8(0x20))
        known = other >= 0
        return np.unique(
            np.concatenate(
                (
                    self.trie.walk(self.data, self.starts, node),
                    other[known],
                    self.trie.walk(self.data, letters[known] + 1, other[known]),
                )
            )
        )

    def beginnings(self, *, with_space: bool) -> Places:
        """Ids of the tokens that begin a quote: behind a space that a token brings, or at once."""
        return self._beginnings[with_space]

    def follow_from_start(self, written: bytes) -> Places:
        """Return the places behind some bytes, one at least, of those where a quote may begin."""
        first = slice(self._bounds[written[0]], self._bounds[written[0] + 1])
        return self.follow(self._by_first_byte[first] + 1, written[1:])

    def follow(self, places: Places, written: bytes) -> Places:
        """Return the places behind some bytes, of those at which these bytes stand."""
        for byte in written:
            places = places[self.data[places] == byte] + 1
        return places

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Turn a span of bytes, not an empty one, into one of the document's characters.

        White space at its end, and a character that is not whole, are no part of it.
        """
        while end > start and (self.data[end - 1] == SPACE or _is_inside(self.data[end])):
            end -= 1
        if end == start:
            first = int(self._chars[start])
            return first, first
        return int(self._chars[start]), int(self._chars[end - 1]) + 1

    def slice(self, start_char: int, end_char: int) -> str:
        """The document's text at a span of characters."""
        return self._text[start_char:end_char]

    def reachable(self, places: Places) -> Places:
        """Nodes of the trie for the tokens that stand at any of some places."""
        return self.trie.walk(self.data, places, ROOT)


def _is_inside(byte: int) -> bool:
    """Whether a byte goes on with a character."""
    return 0x80 <= int(byte) < 0xC0


def _where(points: NDArray[np.uint32], holds: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Ask for each code point once whether something holds for it."""
    kinds, inverse = np.unique(points, return_inverse=True)
    answers = np.array([holds(chr(point)) for point in kinds], dtype=bool)
    return answers[inverse] if len(kinds) else np.zeros(0, dtype=bool)


def _boundaries(chars: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Where a text may be cut: before each character, and behind the last one."""
    word = _where(chars, _is_part_of_word)
    digit = _where(chars, str.isdigit)
    point = np.isin(chars, (ord("."), ord(",")))
    padded = np.concatenate(([False], word, [False]))
    cut: NDArray[np.bool_] = ~(padded[:-1] & padded[1:])
    if len(chars) >= 3:
        inside = digit[:-2] & point[1:-1] & digit[2:]  # 3.5 and 1,200
        cut[1:-2] &= ~inside
        cut[2:-1] &= ~inside
    return cut


def _is_part_of_word(char: str) -> bool:
    if any(low <= ord(char) <= high for low, high in _UNSPACED):
        return False
    return char.isalnum() or char == "_" or unicodedata.category(char)[0] == "M"
