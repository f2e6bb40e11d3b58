"""The JSON of the API as models: what OpenAPI shows, and what tests hold responses against."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ErrorDetail(_Body):
    """What went wrong; programs look at `code`."""

    message: str
    type: str
    param: str | None
    code: str


class ErrorBody(_Body):
    """The one error body."""

    error: ErrorDetail


class Problem(_Body):
    """Why a document failed."""

    code: str | None
    message: str | None


class Progress(_Body):
    """How far reading has come."""

    phase: str
    tokens_done: int
    tokens_total: int


class DocumentBody(_Body):
    """A document; times are Unix seconds."""

    id: str
    object: Literal["document"]
    filename: str
    media_type: str
    num_bytes: int
    status: Literal["queued", "reading", "ready", "failed", "rebuilding"]
    error: Problem | None
    num_tokens: int | None
    num_pages: int | None
    reading_ms: float | None
    created_at: int
    ready_at: int | None
    progress: Progress | None
    cache_bytes: int | None


class DocumentPage(_Body):
    """A page of documents, newest first."""

    object: Literal["list"]
    data: list[DocumentBody]
    has_more: bool
    first_id: str | None
    last_id: str | None


class EvidenceBody(_Body):
    """A passage that carried much of the attention; characters of the extracted text, half open."""

    quote: str
    page: int
    start_char: int
    end_char: int
    weight: float


class BudgetBody(_Body):
    """Shares of the document's cache per generated token."""

    requested: float
    applied: float
    loaded: float
    loaded_prefill: float
    loaded_decode: float
    raised: bool


class UsageBody(_Body):
    """Tokens, and bytes of keys and values."""

    document_tokens: int
    question_tokens: int
    completion_tokens: int
    kv_bytes_read: int
    kv_bytes_stored: int


class AnswerJson(_Body):
    """A whole answer; `first_token` and `total` count from the question's arrival."""

    document_id: str
    answer: str
    finish_reason: Literal["stop", "length"]
    evidence: list[EvidenceBody]
    budget: BudgetBody
    usage: UsageBody
    timings_ms: dict[str, float]
    cache_hit: bool
