"""Answers in the shapes of chat completions and responses, whole and in pieces."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from app.openai.schemas import (
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatMessage,
    ChatUsage,
    Citation,
    CompletionTokens,
    IncompleteDetails,
    InputTokens,
    KvBytes,
    OutputMessage,
    OutputText,
    OutputTokens,
    PromptTokens,
    ResponseBody,
    ResponseError,
    ResponseRequest,
    ResponseUsage,
)
from app.questions.schemas import AnswerBody, AnswerItem
from engine.decode.answer import TextDelta

DONE = b"data: [DONE]\n\n"


def encode_data(body: BaseModel | dict[str, Any], event: str = "") -> bytes:
    """Encode an event of a stream: a name, if it has one, and its data in JSON."""
    data = body if isinstance(body, dict) else body.model_dump(mode="json")
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


# -- chat completions ----------------------------------------------------------------------------


@dataclass(frozen=True)
class ChatAnswer:
    """One answer as a chat completion.

    Attributes:
        id: of the answer, `chatcmpl-...`.
        created: Unix seconds.
        model: as the request named it.
        includes_usage: whether a stream ends with a piece that has the usage.
        includes_evidence: whether passages are sent.
    """

    id: str
    created: int
    model: str
    includes_usage: bool = False
    includes_evidence: bool = True

    def whole(self, body: AnswerBody) -> ChatCompletion:
        """Return a whole answer."""
        message = ChatMessage(
            content=body.answer,
            reasoning_content=None if body.thinking is None else body.thinking.text,
        )
        return ChatCompletion(
            id=self.id,
            created=self.created,
            model=self.model,
            choices=[ChatChoice(message=message, finish_reason=body.finish_reason)],
            usage=chat_usage(body),
            **self._own_fields(body),
        )

    async def stream(self, items: AsyncIterator[AnswerItem]) -> AsyncIterator[bytes]:
        """Yield the pieces of a stream, which ends with [DONE] only if the answer is whole."""
        yield encode_data(self._chunk({"role": "assistant", "content": ""}))
        async for item in items:
            if isinstance(item, TextDelta):
                name = "reasoning_content" if item.is_thinking else "content"
                if item.text:
                    yield encode_data(self._chunk({name: item.text}))
                continue
            last = self._chunk({}, item.finish_reason).model_dump(mode="json")
            yield encode_data(last | _as_json(self._own_fields(item)))
            if self.includes_usage:
                usage = self._chunk(None).model_copy(update={"usage": chat_usage(item)})
                yield encode_data(usage)
            yield DONE

    def _chunk(self, delta: dict[str, str] | None, finish_reason: str | None = None) -> ChatChunk:
        choices = (
            [] if delta is None else [ChatChunkChoice(delta=delta, finish_reason=finish_reason)]
        )
        return ChatChunk(id=self.id, created=self.created, model=self.model, choices=choices)

    def _own_fields(self, body: AnswerBody) -> dict[str, Any]:
        return {
            "evidence": body.evidence if self.includes_evidence else [],
            "budget": body.budget,
            "timings_ms": body.timings_ms,
            "document_id": body.document_id or None,
            "sentences": body.sentences if self.includes_evidence else [],
            **_checkable(body),
        }


def chat_usage(body: AnswerBody) -> ChatUsage:
    """Return the usage of an answer; the document's tokens are cached ones, and kept turns'."""
    usage = body.usage
    prompt = usage.document_tokens + usage.question_tokens
    return ChatUsage(
        prompt_tokens=prompt,
        completion_tokens=usage.completion_tokens,
        total_tokens=prompt + usage.completion_tokens,
        prompt_tokens_details=PromptTokens(cached_tokens=usage.document_tokens + usage.kept_tokens),
        completion_tokens_details=CompletionTokens(reasoning_tokens=usage.thinking_tokens),
        kv_bytes=KvBytes(read=usage.kv_bytes_read, resident=usage.kv_bytes_resident),
    )


def _checkable(body: AnswerBody) -> dict[str, Any]:
    """The fields by which an answer can be checked, and what it left out."""
    return {
        "mode": body.mode,
        "refused": body.refused,
        "quotes": body.quotes,
        "grounded": body.grounded,
        "confidence": body.confidence,
        "num_dropped_turns": body.num_dropped_turns,
    }


# -- responses -----------------------------------------------------------------------------------


@dataclass
class ResponseAnswer:
    """One answer as a response.

    Attributes:
        id: of the response, `resp_...`; message_id: of its only item, `msg_...`.
        created: Unix seconds.
        request: what was asked for.
        filename: of the document; empty for none.
    """

    id: str
    message_id: str
    created: int
    request: ResponseRequest
    filename: str = ""
    _sequence: int = field(default=0, init=False)

    def whole(self, body: AnswerBody) -> ResponseBody:
        """Return a whole response."""
        is_complete = body.finish_reason == "stop"
        message = self._message(
            "completed" if is_complete else "incomplete", body.answer, self._citations(body)
        )
        return self._body(
            "completed" if is_complete else "incomplete",
            output=[message],
            incomplete_details=None
            if is_complete
            else IncompleteDetails(reason=_incomplete_reason(body.finish_reason)),
            usage=_response_usage(body),
            evidence=body.evidence if self.request.evidence else [],
            budget=body.budget,
            timings_ms=body.timings_ms,
            document_id=body.document_id or None,
            sentences=body.sentences if self.request.evidence else [],
            **_checkable(body),
            thinking=body.thinking,
        )

    async def stream(self, items: AsyncIterator[AnswerItem]) -> AsyncIterator[bytes]:
        """Yield the events of a stream; it ends with `response.completed` or another end."""
        begun = self._body("in_progress")
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)
        place = {"output_index": 0, "item_id": self.message_id, "content_index": 0}
        empty = self._message("in_progress", "", [])
        yield self._event("response.output_item.added", output_index=0, item=_no_content(empty))
        yield self._event("response.content_part.added", **place, part=empty.content[0])
        async for item in items:
            if isinstance(item, TextDelta):
                if item.text and not item.is_thinking:
                    yield self._event(
                        "response.output_text.delta", **place, delta=item.text, logprobs=[]
                    )
                continue
            for event in self._ending(item, place):
                yield event

    def failed(self, error: ResponseError) -> bytes:
        """Return the last event of a stream that an error broke."""
        return self._event("response.failed", response=self._body("failed", error=error))

    def _ending(self, body: AnswerBody, place: dict[str, Any]) -> Iterator[bytes]:
        response = self.whole(body)
        message = response.output[0]
        text = message.content[0]
        for index, citation in enumerate(text.annotations):
            yield self._event(
                "response.output_text.annotation.added",
                **place,
                annotation_index=index,
                annotation=citation,
            )
        yield self._event("response.output_text.done", **place, text=text.text, logprobs=[])
        yield self._event("response.content_part.done", **place, part=text)
        yield self._event("response.output_item.done", output_index=0, item=message)
        yield self._event(f"response.{response.status}", response=response)

    def _event(self, event_type: str, /, **fields: Any) -> bytes:
        data = {"type": event_type, "sequence_number": self._sequence, **_as_json(fields)}
        self._sequence += 1
        return encode_data(data, event_type)

    def _message(self, status: Any, text: str, citations: list[Citation]) -> OutputMessage:
        content = [OutputText(text=text, annotations=citations)]
        return OutputMessage(id=self.message_id, status=status, content=content)

    def _citations(self, body: AnswerBody) -> list[Citation]:
        if not self.request.evidence or body.document_id is None:
            return []
        return [
            Citation(
                file_id=body.document_id,
                filename=self.filename,
                index=len(body.answer),
                **passage.model_dump(),
            )
            for passage in body.evidence
        ]

    def _body(self, status: Any, **fields: Any) -> ResponseBody:
        request = self.request
        given: dict[str, Any] = {
            "error": None,
            "incomplete_details": None,
            "output": [],
            "usage": None,
            "evidence": [],
            "budget": None,
            "timings_ms": {},
            "document_id": None,
            "sentences": [],
            "mode": None,
            "refused": False,
            "quotes": [],
            "grounded": None,
            "confidence": None,
            "num_dropped_turns": 0,
            "thinking": None,
        }
        return ResponseBody(
            id=self.id,
            created_at=self.created,
            status=status,
            instructions=request.instructions,
            max_output_tokens=request.max_output_tokens,
            model=request.model,
            previous_response_id=request.previous_response_id,
            temperature=request.temperature,
            top_p=request.top_p,
            truncation=request.truncation or "disabled",
            **(given | fields),
        )


def _response_usage(body: AnswerBody) -> ResponseUsage:
    usage = chat_usage(body)
    return ResponseUsage(
        input_tokens=usage.prompt_tokens,
        input_tokens_details=InputTokens(cached_tokens=usage.prompt_tokens_details.cached_tokens),
        output_tokens=usage.completion_tokens,
        output_tokens_details=OutputTokens(
            reasoning_tokens=usage.completion_tokens_details.reasoning_tokens
        ),
        total_tokens=usage.total_tokens,
        kv_bytes=usage.kv_bytes,
    )


def _incomplete_reason(finish_reason: str) -> str:
    return "max_output_tokens" if finish_reason == "length" else finish_reason


def _no_content(message: OutputMessage) -> OutputMessage:
    return message.model_copy(update={"content": []})


def _as_json(value: Any) -> Any:
    """Turn models within dictionaries and lists into what JSON has."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, dict):
        return {name: _as_json(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_as_json(part) for part in value]
    return value
