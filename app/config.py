"""Settings of the server: its address, and limits on everything that a client can send."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le

MIB = 1024 * 1024


@dataclass(frozen=True)
class ServerConfig:
    """Address and limits of the server.

    Attributes:
        port: the port to listen on; 0 chooses a free one.
        max_upload_bytes: largest upload in bytes; a larger one gets status 413.
        max_question_chars: longest question in characters.
        max_answer_tokens: longest answer in tokens, whatever a request asks for.
        max_thinking_tokens: longest thinking before an answer in tokens, for models that mark it;
            then the model is made to answer.
        sampling: how tokens are chosen where a request does not say: "greedy", or as the "model"
            asks for in its generation_config.json.
        concurrent_questions: questions that are answered at the same time.
        queued_questions: questions that may wait; further ones get status 429.
        question_timeout_s: seconds from a question's arrival to the end of its answer.
        resident_cache_bytes: bytes of documents that are kept in memory; when there are more, the
            least recently used document is removed.
        embedded_worker: whether the server also reads documents, in its own process.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Ge(0), Le(65535)] = 8080
    max_upload_bytes: Annotated[int, Gt(0)] = 64 * MIB
    max_question_chars: Annotated[int, Gt(0)] = 8_000
    max_answer_tokens: Annotated[int, Gt(0)] = 512
    max_thinking_tokens: Annotated[int, Ge(0)] = 2048
    sampling: Literal["greedy", "model"] = "greedy"
    concurrent_questions: Annotated[int, Gt(0)] = 1
    queued_questions: Annotated[int, Ge(0)] = 32
    question_timeout_s: Annotated[float, Gt(0)] = 300.0
    resident_cache_bytes: Annotated[int, Gt(0)] = 2048 * MIB
    embedded_worker: bool = True
