"""What an answer consists of: text as it comes, and at last the whole answer."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for annotations alone
    from engine.attend.budget import BudgetReport
    from engine.attend.evidence import Evidence


@dataclass(frozen=True)
class TextDelta:
    """Text that is added to the answer, or to what the model thinks before it."""

    text: str
    is_thinking: bool = False


@dataclass(frozen=True)
class Thinking:
    """What a model wrote before its answer, marked as thinking.

    Attributes:
        num_tokens: its tokens, marks included.
        is_cut: whether a limit ended it; then the model was made to answer.
    """

    text: str
    num_tokens: int
    is_cut: bool


@dataclass(frozen=True)
class Usage:
    """Tokens of each part, and bytes of document cache read and stored.

    Attributes:
        question_tokens: of the question and of earlier turns.
        completion_tokens: all that were generated, those of `thinking_tokens` included.
        kept_tokens: of the earlier turns, those whose keys and values had been kept.
    """

    document_tokens: int
    question_tokens: int
    completion_tokens: int
    kv_bytes_read: int
    kv_bytes_stored: int
    thinking_tokens: int = 0
    kept_tokens: int = 0


@dataclass(frozen=True)
class Answer:
    """A whole answer.

    Attributes:
        finish_reason: "stop", or "length" where a limit cut it.
        timings_ms: milliseconds from the start to the end of the question's prefill, to the first
            token and to the end (`total`), and the time spent decoding.
        thinking: what the model thought before; None if it marked nothing as thinking.
        num_dropped_turns: earlier turns that were left out, as they did not fit.
    """

    text: str
    finish_reason: str
    evidence: "tuple[Evidence, ...]"
    budget: "BudgetReport"
    usage: Usage
    timings_ms: dict[str, float]
    thinking: Thinking | None = None
    num_dropped_turns: int = 0
