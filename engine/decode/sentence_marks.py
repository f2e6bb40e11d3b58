"""Which attention mass belongs to which sentence of an answer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from common.sentences import sentence_spans
from engine.decode.detokenizer import REPLACEMENT, text_decoder

MOST_MARKS = 32  # of an answer; what comes after the last one is a part of its last sentence
ENDS = ".!?\u2026\u3002\uff01\uff1f\u0964"  # of sentences, in most scripts
CLOSING = "\"')]}\u00bb\u201d\u2019\u300d"


@dataclass(frozen=True)
class Mark:
    """The attention mass at a point of the answer.

    Attributes:
        num_chars: of the answer's text before it.
        num_passes: in which the mass was collected.
        mass: by place in the document (tokens,).
    """

    num_chars: int
    num_passes: int
    mass: Tensor

    def since(self, before: "Mark | None") -> "Mark":
        """What came after another mark."""
        if before is None:
            return self
        return Mark(self.num_chars, self.num_passes - before.num_passes, self.mass - before.mass)


class SentenceEnds:
    """Says of tokens whether a text that ends with them may end as sentences do.

    Args:
        tokenizer: of the model.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._text_of = text_decoder(tokenizer)
        self._known: dict[int, bool] = {}

    def may_end(self, token: int) -> bool:
        """Return whether it may; never False for a token with which a sentence ends."""
        known = self._known.get(token)
        if known is None:
            text = self._text_of([token])
            is_part = not text or REPLACEMENT in text  # of a character: its text is to come
            known = self._known[token] = is_part or text[-1] in ("\n", *ENDS, *CLOSING)
        return known


class SentenceMarks:
    """Marks at points at which a sentence of the answer may have ended."""

    def __init__(self) -> None:
        self._marks: list[Mark] = []

    def may_end(self, text: str) -> bool:
        """Whether a text ends as sentences do, at a point that has no mark yet."""
        if len(self._marks) >= MOST_MARKS or not text:
            return False
        if self._marks and self._marks[-1].num_chars >= len(text):
            return False
        return text[-1] == "\n" or text.rstrip(CLOSING)[-1:] in tuple(ENDS)

    def add(self, mark: Mark) -> None:
        """Add a mark behind all others."""
        self._marks.append(mark)

    @property
    def masses(self) -> tuple[Tensor, ...]:
        """The mass at each mark, in their order."""
        return tuple(mark.mass for mark in self._marks)

    def with_masses(self, masses: Sequence[Tensor]) -> "SentenceMarks":
        """The same marks with their masses from somewhere else."""
        moved = SentenceMarks()
        moved._marks = [
            replace(mark, mass=mass) for mark, mass in zip(self._marks, masses, strict=True)
        ]
        return moved

    def parts(self, text: str, last: Mark) -> Iterator[tuple[tuple[int, int], Mark]]:
        """Yield each sentence's span in the answer's text, and what was collected meanwhile.

        Args:
            text: the whole answer.
            last: at its end.
        """
        before: Mark | None = None
        start: int | None = None
        for first, end in sentence_spans(text):
            start = first if start is None else start
            at = next((mark for mark in self._marks if mark.num_chars >= end), None)
            if at is None:
                continue  # all that is left is one part
            yield (start, end), at.since(before)
            before, start = at, None
        if start is not None:
            yield (start, len(text.rstrip())), last.since(before)
