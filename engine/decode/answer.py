"""What an answer consists of: text as it comes, and at last the whole answer."""

from dataclasses import dataclass

from engine.attend.budget import BudgetReport
from engine.attend.evidence import Evidence


@dataclass(frozen=True)
class TextDelta:
    """Text that is added to the answer."""

    text: str


@dataclass(frozen=True)
class Usage:
    """Tokens of each part, and bytes of document cache read and stored."""

    document_tokens: int
    question_tokens: int
    completion_tokens: int
    kv_bytes_read: int
    kv_bytes_stored: int


@dataclass(frozen=True)
class Answer:
    """A whole answer.

    Attributes:
        finish_reason: "stop", or "length" where a limit cut it.
        timings_ms: milliseconds from the start to the end of the question's prefill, to the first
            token and to the end (`total`), and the time spent decoding.
    """

    text: str
    finish_reason: str
    evidence: tuple[Evidence, ...]
    budget: BudgetReport
    usage: Usage
    timings_ms: dict[str, float]
