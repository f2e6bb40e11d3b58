"""Each fault of a call under `/v1` has its status and code, and names the parameter."""

import inspect
import json
from typing import Any
from uuid import uuid4

import pytest
from openai.resources.chat.completions import Completions
from openai.resources.responses import Responses
from starlette.testclient import TestClient

from app.openai.parameters import IGNORED, NOTHING
from app.openai.schemas import ChatRequest, ResponseRequest
from tests.app.conftest import SharedApp

HALF = "half \ud800 a pair"
SENDING = {"self", "extra_headers", "extra_query", "extra_body", "timeout"}


@pytest.fixture
def client(shared_app: SharedApp) -> TestClient:
    """No call of these tests changes anything."""
    return shared_app.client


@pytest.fixture
def document_id(shared_app: SharedApp) -> str:
    return shared_app.document_id


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def holding(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    """One message of the user that holds parts beside its question."""
    return [user([*parts, {"type": "text", "text": "Who?"}])]


def send(client: TestClient, path: str, body: dict[str, Any]) -> Any:
    headers = {"content-type": "application/json"}
    return client.post(path, content=json.dumps(body), headers=headers)


def refused(response: Any) -> tuple[int, str, str | None]:
    error = response.json()["error"]
    return response.status_code, error["code"], error["param"]


FILE_URL = {"type": "input_file", "file_url": "http://example.org/a.pdf"}
IMAGE = {"type": "image_url", "image_url": {"url": "http://example.org/a.png"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}
FILES = [{"type": "file", "file": {"file_id": one}} for one in ("a", "b")]


@pytest.mark.parametrize(
    ("change", "status", "code", "param"),
    [
        ({"tools": [{"type": "function"}]}, 400, "unsupported_parameter", "tools"),
        ({"functions": [{"name": "f"}]}, 400, "unsupported_parameter", "functions"),
        ({"n": 2}, 400, "unsupported_parameter", "n"),
        ({"logprobs": True}, 400, "unsupported_parameter", "logprobs"),
        ({"top_logprobs": 3}, 400, "unsupported_parameter", "top_logprobs"),
        ({"modalities": ["text", "audio"]}, 400, "unsupported_parameter", "modalities"),
        ({"audio": {"voice": "v", "format": "wav"}}, 400, "unsupported_parameter", "audio"),
        ({"messages": holding(IMAGE)}, 400, "unsupported_parameter", "messages"),
        ({"messages": holding(SOUND)}, 400, "unsupported_parameter", "messages"),
        ({"messages": holding(FILE_URL)}, 400, "unsupported_parameter", "messages"),
        ({"messages": holding(*FILES)}, 400, "unsupported_parameter", "messages"),
        ({"messages": [user("a"), {"role": "tool", "content": "b"}, user("c")]},
         400, "unsupported_parameter", "messages"),
        ({"temprature": 1}, 400, "unsupported_parameter", "temprature"),
        ({"messages": holding({"type": "file"})}, 400, "invalid_input", "messages"),
        ({"messages": holding({"type": "file", "file": {}})}, 400, "invalid_input", "messages"),
        ({"messages": holding({"type": "input_file", "file_id": 3})},
         400, "invalid_input", "messages"),
        ({"messages": [user([{"type": "text"}])]}, 400, "invalid_input", "messages"),
        ({"messages": [user([{"type": "text", "text": HALF}])]}, 400, "invalid_input", "messages"),
        ({"messages": [user("a"), {"role": "assistant", "content": "b"}]},
         400, "invalid_input", "messages"),
        ({"messages": holding(FILES[0])}, 404, "document_not_found", "messages"),
        ({"model": "gpt-4o"}, 404, "model_not_found", "model"),
        ({"model": "lectern/none.txt"}, 404, "model_not_found", "model"),
        ({"model": "lectern/a\x00.txt"}, 404, "model_not_found", "model"),
        ({"model": ""}, 422, "invalid_request", "model"),
        ({"messages": "Who?"}, 422, "invalid_request", "messages"),
        ({"messages": []}, 422, "invalid_request", "messages"),
        ({"messages": [3]}, 422, "invalid_request", "messages"),
        ({"messages": [user([{"text": "a"}])]}, 422, "invalid_request", "messages"),
        ({"messages": [user(3)]}, 422, "invalid_request", "messages"),
        ({"messages": [user(HALF)]}, 422, "invalid_request", "messages"),
        ({"messages": [user("  ")]}, 422, "empty_question", "messages"),
        ({"messages": [user("x" * 8_001)]}, 422, "question_too_long", "messages"),
        ({"messages": [user("x" * 3_900)]}, 422, "question_too_long", "messages"),
        ({"stop": ["a"] * 5}, 422, "invalid_request", "stop"),
        ({"stop": [""]}, 422, "invalid_request", "stop"),
        ({"stop": "x" * 257}, 422, "invalid_request", "stop"),
        ({"max_tokens": 0}, 422, "invalid_request", "max_tokens"),
        ({"temperature": 9}, 422, "invalid_request", "temperature"),
        ({"budget": "cheap"}, 422, "invalid_request", "budget"),
        ({"tolerance": 0.1}, 400, "invalid_input", "tolerance"),
        ({"max_thinking_tokens": 9_999}, 400, "invalid_input", "max_thinking_tokens"),
        ({"model": "lectern", "mode": "quote"}, 400, "invalid_input", "mode"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_chat_is_named(
    client: TestClient,
    document_id: str,
    change: dict[str, Any],
    status: int,
    code: str,
    param: str | None,
) -> None:
    chat = {"model": f"lectern/{document_id}", "messages": [user("Who?")], "max_tokens": 2}
    assert refused(send(client, "/v1/chat/completions", chat | change)) == (status, code, param)


@pytest.mark.parametrize(
    ("change", "status", "code", "param"),
    [
        ({"tools": [{"type": "web_search"}]}, 400, "unsupported_parameter", "tools"),
        ({"include": ["message.output_text.logprobs"]}, 400, "unsupported_parameter", "include"),
        ({"conversation": "conv_1"}, 400, "unsupported_parameter", "conversation"),
        ({"background": True}, 400, "unsupported_parameter", "background"),
        ({"stop": "x"}, 400, "unsupported_parameter", "stop"),
        ({"input": holding({"type": "input_image", "image_url": "x"})},
         400, "unsupported_parameter", "input"),
        ({"input": [{"type": "function_call_output", "output": "x", "call_id": "c"}]},
         400, "unsupported_parameter", "input"),
        ({"previous_response_id": "resp_1"}, 404, "answer_not_found", "previous_response_id"),
        ({"previous_response_id": ""}, 404, "answer_not_found", "previous_response_id"),
        ({"previous_response_id": f"resp_{uuid4().hex}"},
         404, "answer_not_found", "previous_response_id"),
        ({"previous_response_id": "x" * 101}, 422, "invalid_request", "previous_response_id"),
        ({"input": []}, 422, "invalid_request", "input"),
        ({"input": 3}, 422, "invalid_request", "input"),
        ({"input": HALF}, 422, "invalid_request", "input"),
        ({"input": ""}, 422, "empty_question", "input"),
        ({"instructions": HALF}, 422, "invalid_request", "instructions"),
        ({"truncation": "left"}, 422, "invalid_request", "truncation"),
        ({"max_output_tokens": 0}, 422, "invalid_request", "max_output_tokens"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_response_is_named(
    client: TestClient,
    document_id: str,
    change: dict[str, Any],
    status: int,
    code: str,
    param: str,
) -> None:
    request = {"model": f"lectern/{document_id}", "input": "Who?", "max_output_tokens": 2}
    assert refused(send(client, "/v1/responses", request | change)) == (status, code, param)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_a_body_that_is_no_json_object(client: TestClient, path: str) -> None:
    headers = {"content-type": "application/json"}
    answered = client.post(path, content=b"{", headers=headers)
    assert (answered.status_code, answered.json()["error"]["code"]) == (400, "malformed_json")
    assert refused(client.post(path, json=[1]))[:2] == (422, "invalid_request")


@pytest.mark.parametrize(
    ("create", "request_model"),
    [(Completions.create, ChatRequest), (Responses.create, ResponseRequest)],
)
def test_every_parameter_of_the_official_client_is_known(create: Any, request_model: Any) -> None:
    theirs = set(inspect.signature(create).parameters) - SENDING
    assert theirs - set(request_model.model_fields) - set(NOTHING) - IGNORED == set()


def test_parameters_that_change_nothing_are_accepted(client: TestClient, document_id: str) -> None:
    shared = {
        "model": f"lectern/{document_id}",
        "user": "u",
        "metadata": {"a": "b"},
        "service_tier": "auto",
        "prompt_cache_key": "k",
        "parallel_tool_calls": False,
        "tools": [],
        "tool_choice": "auto",
        "top_logprobs": 0,
    }
    chat = {"messages": [user("Who?")], "max_tokens": 2, "n": 1, "store": True, "logprobs": False}
    response = {
        "input": "Who?",
        "max_output_tokens": 2,
        "stream_options": {"include_obfuscation": False},
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "reasoning": {"effort": "none"},
        "truncation": "disabled",
    }
    for path, body in (("/v1/chat/completions", chat), ("/v1/responses", response)):
        answered = send(client, path, shared | body)
        assert answered.status_code == 200, answered.text


def test_turns_that_do_not_fit_are_an_error_or_dropped_if_that_is_asked_for(
    client: TestClient, document_id: str
) -> None:
    long = [user("Who? " * 300), {"role": "assistant", "content": "Nobody. " * 100}]
    messages = [*long, *long, user("When?")]
    chat = {"model": f"lectern/{document_id}", "messages": messages, "max_tokens": 2}
    response = {"model": f"lectern/{document_id}", "input": messages, "max_output_tokens": 2}
    for path, body, param in (
        ("/v1/chat/completions", chat, "messages"),
        ("/v1/responses", response, "input"),
    ):
        too_long = send(client, path, body)
        assert refused(too_long) == (422, "conversation_too_long", param)
        dropped = send(client, path, body | {"drop_oldest_turns": True}).json()
        assert dropped["num_dropped_turns"] == 1
    truncated = send(client, "/v1/responses", response | {"truncation": "auto"}).json()
    assert (truncated["num_dropped_turns"], truncated["truncation"]) == (1, "auto")
