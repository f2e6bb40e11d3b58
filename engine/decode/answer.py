"""What an answer consists of: text as it comes, and at last the whole answer."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for annotations alone
    from engine.attend.budget import BudgetReport
    from engine.attend.evidence import Evidence
    from engine.decode.grounded import Claim


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
    kv_bytes_resident: int
    thinking_tokens: int = 0
    kept_tokens: int = 0


@dataclass(frozen=True)
class Quote:
    """A passage of the document that an answer consists of.

    Attributes:
        text: the document's text at the span.
        page: from 1; None where no page holds it.
        start_char, end_char: its half-open span in the document's text.
        answer_start, answer_end: its half-open span in the answer's text, in which a run of white
            space is one space.
    """

    text: str
    page: int | None
    start_char: int
    end_char: int
    answer_start: int
    answer_end: int


@dataclass(frozen=True)
class SentenceEvidence:
    """A sentence of an answer, with what was attended to while it was written.

    Attributes:
        start, end: its half-open span in the answer's text.
        evidence: its own passages.
    """

    start: int
    end: int
    evidence: "tuple[Evidence, ...]"


@dataclass(frozen=True)
class Confidence:
    """How sure a model was of an answer, as far as its numbers tell.

    Attributes:
        mean_log_probability: of the answer's tokens and of the token that ended it, in nats, by the
            model's own logits, before any mask or temperature; None for an answer without any.
        document_attention: attention mass on the document, sinks excluded, for each pass and
            attention head that keeps the document: 1 where each of them attends to one token alone.
    """

    mean_log_probability: float | None
    document_attention: float


@dataclass(frozen=True)
class Answer:
    """A whole answer.

    Attributes:
        finish_reason: "stop", "length" where a limit cut it, or "repetition" where it repeated
            itself.
        timings_ms: milliseconds from the start to the end of the question's prefill, to the first
            token and to the end (`total`), and the time spent decoding.
        thinking: what the model thought before; None if it marked nothing as thinking.
        num_dropped_turns: earlier turns that were left out, as they did not fit.
        sentences: the answer's, with the evidence of each; only of the first ones of many.
        confidence: how sure the model was.
        refused: whether it is the sentence that says that the document holds no answer.
        quotes: the passages it consists of, where it was to quote; else None.
        claims: its numbers, names and codes, and whether they stand in the document; None where
            there is no document, and where the answer quotes.
        attention: share of the attention in each of equal spans of the document's text; see
            `profile_attention`.
    """

    text: str
    finish_reason: str
    evidence: "tuple[Evidence, ...]"
    budget: "BudgetReport"
    usage: Usage
    timings_ms: dict[str, float]
    thinking: Thinking | None = None
    num_dropped_turns: int = 0
    sentences: tuple[SentenceEvidence, ...] = ()
    confidence: Confidence = Confidence(None, 0.0)
    refused: bool = False
    quotes: tuple[Quote, ...] | None = None
    claims: "tuple[Claim, ...] | None" = None
    attention: tuple[float, ...] = ()
