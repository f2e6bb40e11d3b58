"""Bodies of the routes under `/v1`, in the shapes that OpenAI's clients read field by field.

The client checks no response: a field of another name would silently be None there.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from app.http.schemas import Body, whole_characters
from app.openai.parameters import Parameters
from app.questions.schemas import (
    MAX_STOPS,
    BudgetBody,
    ConfidenceBody,
    EvidenceBody,
    GroundedBody,
    QuoteBody,
    SentenceBody,
    Share,
    StopString,
    ThinkingBody,
)
from engine.config import AnswerMode

MAX_MESSAGES = 1000
Budget = Literal["fast", "balanced", "exact", "auto"] | Share
Text = Annotated[str, AfterValidator(whole_characters)]


def _form(value: Any) -> str:
    """Say which of two forms a value has, so that an error speaks of that form."""
    return "text" if isinstance(value, str) else "list"


# -- files -------------------------------------------------------------------------------------


class FileBody(Body):
    """A document as a file; `precompute` says how far its reading is, `metadata` what is noted."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: Literal["uploaded", "processed", "error"]
    status_details: str | None
    precompute: dict[str, Any] | None
    metadata: dict[str, str]


class FilePage(Body):
    """A page of files."""

    object: Literal["list"] = "list"
    data: list[FileBody]
    first_id: str | None
    last_id: str | None
    has_more: bool


class FileDeleted(Body):
    """A file was deleted."""

    id: str
    object: Literal["file"] = "file"
    deleted: Literal[True] = True


# -- models ------------------------------------------------------------------------------------


class ModelBody(Body):
    """The model itself, or the model together with one ready document."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "lectern"


class ModelList(Body):
    """All models that a chat can name."""

    object: Literal["list"] = "list"
    data: list[ModelBody]


# -- what questions have in common ---------------------------------------------------------------


class AskParameters(Parameters):
    """Parameters that chat completions and responses share; those from `budget` on are our own."""

    model: str = Field(min_length=1, max_length=600)
    stream: bool = False
    temperature: float | None = Field(default=None, ge=0, le=2, allow_inf_nan=False)
    top_p: float | None = Field(default=None, gt=0, le=1, allow_inf_nan=False)
    budget: Budget = "balanced"
    tolerance: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    max_thinking_tokens: int | None = Field(default=None, ge=0, le=1_000_000)
    ignore_eos: bool = False
    mode: AnswerMode | None = None
    stop_repetition: bool | None = None
    evidence: bool = True
    reuse_answer: bool = True
    drop_oldest_turns: bool = False


class _Part(BaseModel):
    """A part of a message; clients add fields of their own, which are ignored."""

    model_config = ConfigDict(extra="ignore")


class TextPart(_Part):
    """Text."""

    type: Literal["text", "input_text", "output_text"]
    text: Text


class FileReference(_Part):
    """A file by its id, or a file itself as base64 or as a data URL."""

    file_id: Text | None = None
    file_data: str | None = None
    filename: Text | None = None


class FilePart(_Part):
    """A file of a chat message."""

    type: Literal["file"]
    file: FileReference


class InputFilePart(FileReference):
    """A file of a response's input."""

    type: Literal["input_file"]
    file_url: str | None = None


class OtherPart(_Part):
    """A part of a kind that is not supported: an image, a sound."""

    type: Text


Part = TextPart | FilePart | InputFilePart | OtherPart


class Message(_Part):
    """A message of a chat, or an item of a response's input."""

    role: Text = ""
    content: (
        Annotated[
            Annotated[Text, Tag("text")] | Annotated[list[Part], Tag("list")], Discriminator(_form)
        ]
        | None
    ) = None
    type: Text | None = None


# -- chat completions ----------------------------------------------------------------------------


class StreamOptions(_Part):
    """What a stream contains beside the answer."""

    include_usage: bool = False


class ChatRequest(AskParameters):
    """The body of `POST /v1/chat/completions`."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    stop: (
        Annotated[
            Annotated[StopString, Tag("text")]
            | Annotated[list[StopString], Field(max_length=MAX_STOPS), Tag("list")],
            Discriminator(_form),
        ]
        | None
    ) = None
    stream_options: StreamOptions | None = None


class PromptTokens(Body):
    """Of the tokens before the answer, how many were not read for this question."""

    cached_tokens: int
    cache_write_tokens: int = 0
    audio_tokens: int = 0


class CompletionTokens(Body):
    """Of the generated tokens, how many are thinking."""

    reasoning_tokens: int
    audio_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class KvBytes(Body):
    """Bytes of the document's cache: read for this answer, and held in memory."""

    read: int
    resident: int


class ChatUsage(Body):
    """Tokens: the document counts as cached prompt tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokens
    completion_tokens_details: CompletionTokens
    kv_bytes: KvBytes


class ChatMessage(Body):
    """An answer; `reasoning_content` is what the model marked as thinking."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None
    reasoning_content: str | None = None


class ChatChoice(Body):
    """The only choice."""

    index: Literal[0] = 0
    message: ChatMessage
    logprobs: None = None
    finish_reason: str


class ChatCompletion(Body):
    """A whole answer; the fields from `evidence` on are Lectern's own."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage
    evidence: list[EvidenceBody]
    budget: BudgetBody | None
    timings_ms: dict[str, float]
    document_id: str | None
    sentences: list[SentenceBody]
    mode: AnswerMode
    refused: bool
    quotes: list[QuoteBody]
    grounded: list[GroundedBody] | None
    confidence: ConfidenceBody
    num_dropped_turns: int


class ChatChunkChoice(BaseModel):
    """The only choice of a piece of a stream."""

    index: Literal[0] = 0
    delta: dict[str, str]
    logprobs: None = None
    finish_reason: str | None = None


class ChatChunk(BaseModel):
    """A piece of a stream; the last one with a choice carries Lectern's own fields, too."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: ChatUsage | None = None


# -- responses -----------------------------------------------------------------------------------


class ResponseRequest(AskParameters):
    """The body of `POST /v1/responses`; `truncation` "auto" is `drop_oldest_turns`."""

    input: Annotated[
        Annotated[Text, Tag("text")]
        | Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES), Tag("list")],
        Discriminator(_form),
    ]
    instructions: Text | None = None
    previous_response_id: str | None = Field(default=None, max_length=100)
    max_output_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    store: bool | None = None
    truncation: Literal["auto", "disabled"] | None = None


class Citation(Body):
    """A passage that the answer comes from; from `quote` on the fields are Lectern's own."""

    type: Literal["file_citation"] = "file_citation"
    file_id: str
    filename: str
    index: int
    quote: str
    page: int | None
    start_char: int
    end_char: int
    weight: float
    heading: str | None
    paragraph: int | None
    lexical: float = 0.0


class OutputText(Body):
    """The text of an answer with its citations."""

    type: Literal["output_text"] = "output_text"
    text: str
    annotations: list[Citation]
    logprobs: list[Any] = Field(default_factory=list)


class OutputMessage(Body):
    """The only item of a response's output."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    status: Literal["in_progress", "completed", "incomplete"]
    content: list[OutputText]


class InputTokens(Body):
    """Of the tokens before the answer, how many were not read for this question."""

    cached_tokens: int
    cache_write_tokens: int = 0


class OutputTokens(Body):
    """Of the generated tokens, how many are thinking."""

    reasoning_tokens: int


class ResponseUsage(Body):
    """Tokens: the document counts as cached input tokens."""

    input_tokens: int
    input_tokens_details: InputTokens
    output_tokens: int
    output_tokens_details: OutputTokens
    total_tokens: int
    kv_bytes: KvBytes


class ResponseError(Body):
    """Why a response failed."""

    code: str
    message: str


class IncompleteDetails(Body):
    """Why a response ended early."""

    reason: str


class ResponseBody(Body):
    """A response; the fields from `evidence` on are Lectern's own."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    error: ResponseError | None
    incomplete_details: IncompleteDetails | None
    instructions: str | None
    max_output_tokens: int | None
    model: str
    output: list[OutputMessage]
    parallel_tool_calls: bool = True
    previous_response_id: str | None
    temperature: float | None
    tool_choice: str = "auto"
    tools: list[Any] = Field(default_factory=list)
    top_p: float | None
    truncation: Literal["auto", "disabled"]
    usage: ResponseUsage | None
    metadata: dict[str, str] = Field(default_factory=dict)
    evidence: list[EvidenceBody]
    budget: BudgetBody | None
    timings_ms: dict[str, float]
    document_id: str | None
    sentences: list[SentenceBody]
    mode: AnswerMode | None
    refused: bool
    quotes: list[QuoteBody]
    grounded: list[GroundedBody] | None
    confidence: ConfidenceBody | None
    num_dropped_turns: int
    thinking: ThinkingBody | None
