"""Whether the numbers, names and codes of an answer stand in the document, and where."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal

from common.sentences import sentence_spans
from engine.document.cache import DocumentCache

Kind = Literal["number", "name", "code"]
MOST_CLAIMS = 64  # of an answer
MOST_PLACES = 1000  # of one of them that are counted
SHORT_ANSWER = 4  # words; a shorter answer's first word is taken to be a name
_LINK = r"(?:https?://|www\.)[^\s<>\"]*[\w/]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
_MIXED = r"(?=[\w./:#-]*\d)(?=[\w./:#-]*[^\W\d_])[\w#](?:[\w./:#-]*\w)?"  # letters and digits
_NUMBER = r"\d(?:[\d.,:/-]*\d)?"
_NAME = r"(?<!\w)[^\W\d_]\.(?= [^\W\d_])|[^\W\d_]+(?:['\u2019-][^\W\d_]+)*"
_ITEM = re.compile(
    rf"(?P<code>{_LINK}|(?<!\w)(?:{_MIXED})(?!\w))|(?P<number>(?<!\w){_NUMBER}(?!\w))|(?P<word>{_NAME})"
)
_NUMBER_BEFORE, _NUMBER_BEHIND = re.compile(r"\d[.,]"), re.compile(r"[.,]\d")


@dataclass(frozen=True)
class Claim:
    """A number, name or code of an answer.

    Attributes:
        text: as the answer has it; start, end: its half-open span there.
        num_places: how often it stands in the document, as a word of its own; at most
            `MOST_PLACES` are counted.
        start_char, end_char: one of these places in the document's text, within a passage of the
            evidence if one stands there; None if there is none.
    """

    text: str
    kind: Kind
    start: int
    end: int
    num_places: int
    start_char: int | None
    end_char: int | None

    @property
    def is_grounded(self) -> bool:
        """Whether it stands in the document."""
        return self.num_places > 0


def find_claims(
    answer: str, document: DocumentCache, passages: tuple[tuple[int, int], ...] = ()
) -> tuple[Claim, ...]:
    """Find an answer's numbers, names and codes, and look for each of them in the document.

    Args:
        passages: spans of the document's characters in which a place is preferred, best first.
    """
    claims = []
    begins = {start for start, _ in sentence_spans(answer)}
    for kind, start, end in _items(answer, begins):
        places = _places(answer[start:end], kind, document.text)
        if kind == "name" and start in begins:
            # A sentence's first word may be capitalised for nothing.
            if not places:
                start, places = _without_first_word(answer, start, end, document.text)
            elif _is_plain_word(answer, start, end, document.text):
                continue
            if start == end:
                continue
        best = next(
            (
                place
                for first, last in passages
                for place in places
                if first <= place[0] and place[1] <= last
            ),
            places[0] if places else (None, None),
        )
        claims.append(Claim(answer[start:end], kind, start, end, len(places), *best))
        if len(claims) == MOST_CLAIMS:
            break
    return tuple(claims)


def _without_first_word(
    answer: str, start: int, end: int, text: str
) -> tuple[int, list[tuple[int, int]]]:
    """Begin a name that does not stand in the document behind a sentence's first word.

    Returns: where it begins and its places: `start` where the whole is a name all the same, which
        a short answer is taken to be; `end` for no name.
    """
    _, space, rest = answer[start:end].partition(" ")
    if not space:
        is_name = _is_short(answer) and not _has_lower_case(answer[start:end], text)
        return (start if is_name else end), []
    places = _places(rest, "name", text)
    return (end - len(rest) if places else start), places


def _is_plain_word(answer: str, start: int, end: int, text: str) -> bool:
    """Whether a name is but a sentence's first word, which the document has in lower case, too.

    A short answer's is taken to be a name.
    """
    word = answer[start:end]
    return " " not in word and not _is_short(answer) and _has_lower_case(word, text)


def _has_lower_case(word: str, text: str) -> bool:
    """Whether a word stands in a text in lower case."""
    return next(_word_places([word.lower()], text), None) is not None


def _is_short(answer: str) -> bool:
    """Whether an answer's first word is taken to be a name."""
    return len(answer.split()) < SHORT_ANSWER


def _items(answer: str, begins: set[int]) -> Iterator[tuple[Kind, int, int]]:
    """The items of an answer, whose sentences begin at `begins`."""
    name: tuple[int, int] | None = None
    for found in _ITEM.finditer(answer):
        start, end = found.span()
        is_name = found.lastgroup == "word" and found[0][0].isupper()
        if is_name:
            if name is not None and answer[name[1] : start] == " " and start not in begins:
                name = name[0], end
            else:
                if name is not None:
                    yield "name", *name
                name = start, end
            continue
        if name is not None:
            yield "name", *name
            name = None
        if found.lastgroup == "code":
            yield "code", start, end
        elif found.lastgroup == "number":
            yield "number", start, end
    if name is not None:
        yield "name", *name


def _places(item: str, kind: Kind, text: str) -> list[tuple[int, int]]:
    """Where an item stands in a text, as a word of its own: the first `MOST_PLACES`, in order."""
    if kind != "number":
        return list(islice(_word_places(item.split(), text), MOST_PLACES))
    places = (islice(_number_places(one, text), MOST_PLACES) for one in _groupings(item))
    return sorted(chain.from_iterable(places))[:MOST_PLACES]


def _number_places(number: str, text: str) -> Iterator[tuple[int, int]]:
    """Where exactly these characters stand, and are no part of a longer number."""
    for start, end in _word_places([number], text):
        before = _NUMBER_BEFORE.match(text, max(0, start - 2), start)
        if before is None and _NUMBER_BEHIND.match(text, end) is None:
            yield start, end


def _word_places(words: Sequence[str], text: str) -> Iterator[tuple[int, int]]:
    """Where words follow each other as words of their own, with white space between them.

    The first one is looked for as a plain string: an expression that begins with a look behind
    tries every place of a long text, while no other thread can compute.
    """
    rest = re.compile("".join(rf"\s+{re.escape(word)}" for word in words[1:]) + r"(?!\w)")
    start = text.find(words[0])
    while start >= 0:
        found = None
        if start == 0 or not _is_word_character(text[start - 1]):
            found = rest.match(text, start + len(words[0]))
        if found is not None:
            yield start, found.end()
        start = text.find(words[0], start + 1 if found is None else found.end())


def _is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_"


def _groupings(number: str) -> Iterator[str]:
    """A whole number with and without commas between its thousands; any other as it is."""
    if not re.fullmatch(r"\d{1,3}(?:,\d{3})+|\d{4,}", number):
        yield number
        return
    digits = number.replace(",", "")
    groups = [digits[max(0, end - 3) : end] for end in range(len(digits), 0, -3)][::-1]
    yield digits
    yield ",".join(groups)
