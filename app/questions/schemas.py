"""Models of questions and answers, which OpenAPI shows and responses are made of."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from app.http.schemas import Body, whole_characters
from engine.config import AnswerMode
from engine.decode.answer import TextDelta

MAX_STOPS, MAX_STOP_CHARS = 4, 256
MAX_TURNS = 1000
StopString = Annotated[str, Field(min_length=1, max_length=MAX_STOP_CHARS, strict=True)]
Share = Annotated[float, Field(gt=0, le=1, strict=True, allow_inf_nan=False)]


class TurnBody(BaseModel):
    """An earlier question with its answer."""

    model_config = ConfigDict(extra="forbid")

    question: str
    answer: str

    @field_validator("question", "answer")
    @classmethod
    def _whole_characters(cls, text: str) -> str:
        return whole_characters(text)


class QuestionBody(BaseModel):
    """A question, how much of the document's cache may be read for it, and how to sample tokens.

    Earlier turns are sent along as `turns`, oldest first, or named by `previous_answer_id`: the
    `answer_id` of an answer that was asked for with `keep`. Turns that do not fit are an error,
    or with `drop_oldest_turns` left out from the oldest on. With `reuse_answer` false the question
    is answered anew, and its answer is not stored for the same question.
    """

    model_config = ConfigDict(extra="forbid")

    # OpenAPI shows these bounds, but breaking them has error codes of its own.
    question: str = Field(json_schema_extra={"minLength": 1, "pattern": "\\S"})
    budget: Literal["fast", "balanced", "exact", "auto"] | Share = "balanced"
    tolerance: float | None = Field(default=None, ge=0, le=1, strict=True, allow_inf_nan=False)
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000, strict=True)
    max_thinking_tokens: int | None = Field(default=None, ge=0, le=1_000_000, strict=True)
    temperature: float | None = Field(default=None, ge=0, le=2, strict=True, allow_inf_nan=False)
    top_p: float | None = Field(default=None, gt=0, le=1, strict=True, allow_inf_nan=False)
    seed: int | None = Field(default=None, ge=0, lt=2**63, strict=True)
    stop: list[StopString] = Field(default_factory=list, max_length=MAX_STOPS)
    ignore_eos: bool = Field(default=False, strict=True)
    mode: AnswerMode | None = None
    stop_repetition: bool | None = Field(default=None, strict=True)
    stream: bool = Field(default=False, strict=True)
    turns: list[TurnBody] = Field(default_factory=list, max_length=MAX_TURNS)
    previous_answer_id: str | None = Field(default=None, max_length=64)
    keep: bool = Field(default=False, strict=True)
    drop_oldest_turns: bool = Field(default=False, strict=True)
    attention: bool = Field(default=False, strict=True)
    reuse_answer: bool = Field(default=True, strict=True)

    @field_validator("question")
    @classmethod
    def _whole_characters(cls, text: str) -> str:
        return whole_characters(text)


class EvidenceBody(Body):
    """A passage that got much of the attention, or shares rare words with the question.

    `weight` is its share of the attention, `lexical` how well its words fit, the best passage's
    being 1; both count. The span is half-open, in the extracted text.

    `page` is null for formats without pages; `heading` is the nearest one above it, and `paragraph`
    the number of its paragraph, list item or table row below that.
    """

    quote: str
    page: int | None
    start_char: int
    end_char: int
    weight: float
    heading: str | None
    paragraph: int | None
    lexical: float = 0.0


class QuoteBody(Body):
    """A passage that an answer in quote mode consists of.

    `text` is the document's at its half-open span; from `answer_start` to `answer_end` the answer
    has the same, with one space for a run of white space.
    """

    text: str
    page: int | None
    start_char: int
    end_char: int
    answer_start: int
    answer_end: int


class SentenceBody(Body):
    """A sentence of an answer, by its half-open span there, with its own passages."""

    start: int
    end: int
    evidence: list[EvidenceBody]


class GroundedBody(Body):
    """A number, name or code of an answer, and whether it stands in the document.

    `start` and `end` are its half-open span in the answer, `start_char` and `end_char` that of one
    of its `num_places` in the document; null where there is none.
    """

    text: str
    kind: Literal["number", "name", "code"]
    start: int
    end: int
    is_grounded: bool
    num_places: int
    start_char: int | None
    end_char: int | None


class ConfidenceBody(Body):
    """How sure the model was, as far as its numbers tell.

    `mean_log_probability` is of the answer's tokens, in nats, as the model itself saw them;
    `document_attention` the attention mass on the document for each pass and head that keeps it.
    """

    mean_log_probability: float | None
    document_attention: float


class BudgetBody(Body):
    """Shares of the document's cache that are read for each generated token.

    `predicted_loss` is what calibration found the applied budget to lose on probes, null where that
    is not known; `tolerance` what it was to lose at most, null where the request named a budget.
    """

    requested: float
    applied: float
    loaded: float
    loaded_prefill: float
    loaded_decode: float
    raised: bool
    tolerance: float | None
    predicted_loss: float | None


class UsageBody(Body):
    """Numbers of tokens, and bytes of keys and values: read for this answer, and held in memory.

    Of `completion_tokens`, which are all that were generated, `thinking_tokens` are no answer. Of
    `question_tokens`, which are of earlier turns too, `kept_tokens` were not computed again.
    """

    document_tokens: int
    question_tokens: int
    completion_tokens: int
    thinking_tokens: int
    kept_tokens: int
    kv_bytes_read: int
    kv_bytes_resident: int


class ThinkingBody(Body):
    """What the model thought before its answer; `is_cut` if the limit ended it."""

    text: str
    num_tokens: int
    is_cut: bool


class SamplingBody(Body):
    """How tokens were chosen; temperature 0 is greedy, and top_k 0 means all tokens."""

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float


class AnswerBody(Body):
    """A whole answer; it is also the data of `event: answer`.

    `thinking` is null where the model marked nothing as thinking.

    In `mode` "quote" the answer consists of `quotes` and joints between them, or it is the refusal;
    in free mode `grounded` says which of its claims stand in the document (null without one).

    `answer_id` names the answer where it is kept as a turn of a conversation. `document_id` is null
    where a model answered without a document. `stored` says that it is an earlier answer to the
    same question, and that nothing was computed for this one.

    Of the times, `first_token` and `total` count from the question's arrival. `attention`, where it
    was asked for, is the share of the attention in each of 256 equal spans of the document's text.
    """

    document_id: str | None
    answer_id: str | None
    answer: str
    thinking: ThinkingBody | None
    finish_reason: Literal["stop", "length", "repetition"]
    mode: AnswerMode
    refused: bool
    quotes: list[QuoteBody]
    grounded: list[GroundedBody] | None
    confidence: ConfidenceBody
    evidence: list[EvidenceBody]
    sentences: list[SentenceBody]
    budget: BudgetBody
    usage: UsageBody
    sampling: SamplingBody
    timings_ms: dict[str, float]
    cache_hit: bool
    num_dropped_turns: int
    attention: list[float] | None
    stored: bool = False


# What the work on a question yields: text as it comes, then the whole answer.
AnswerItem = TextDelta | AnswerBody
