"""A stream that the server breaks is never mistaken for a finished one, by either client."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from app.services.services import Services
from common.errors import StepFailed
from engine.decode.answer import TextDelta
from tests.app.engines import with_script
from tests.app.seeding import StorageSeeder


def breaks(*_: Any, **__: Any) -> Iterator[TextDelta]:
    yield TextDelta("The gate")
    raise StepFailed("A forward pass failed.")


@pytest.fixture
def services(services: Services) -> Services:
    return with_script(services, breaks)


@pytest.fixture
def access(seeder: StorageSeeder, address: str) -> dict[str, Any]:
    seeder.add("gate.txt")
    seeder.publish()
    key = seeder.headers()["authorization"].removeprefix("Bearer ")
    return {"base_url": f"{address}/v1", "api_key": key, "max_retries": 0}


CHAT: dict[str, Any] = {
    "model": "lectern/gate.txt",
    "messages": [{"role": "user", "content": "When?"}],
    "stream": True,
}
RESPONSE: dict[str, Any] = {"model": "lectern/gate.txt", "input": "When?", "stream": True}


def note(chunks: list[Any], stream: Any) -> None:
    """Note the pieces of a stream, those before an error too."""
    for chunk in stream:
        chunks.append(chunk)


async def note_async(chunks: list[Any], stream: Any) -> None:
    async for chunk in stream:
        chunks.append(chunk)


def test_a_broken_chat_raises(access) -> None:
    chunks: list[Any] = []
    with OpenAI(**access) as api, pytest.raises(openai.APIError) as raised:
        note(chunks, api.chat.completions.create(**CHAT))
    assert "".join(one.choices[0].delta.content or "" for one in chunks) == "The gate"
    assert {one.choices[0].finish_reason for one in chunks} == {None}
    assert raised.value.code == "step_failed"


def test_a_broken_response_has_failed(access) -> None:
    with OpenAI(**access) as api:
        events = list(api.responses.create(**RESPONSE))
    assert events[-1].type == "response.failed"
    assert events[-1].response.status == "failed"
    assert events[-1].response.error.code == "step_failed"
    assert "response.completed" not in {event.type for event in events}


@pytest.mark.anyio
async def test_the_asynchronous_client_notices_too(access) -> None:
    async with AsyncOpenAI(**access) as api:
        chunks: list[Any] = []
        stream = await api.chat.completions.create(**CHAT)
        with pytest.raises(openai.APIError) as raised:
            await note_async(chunks, stream)
        assert "".join(one.choices[0].delta.content or "" for one in chunks) == "The gate"
        assert raised.value.code == "step_failed"
        events = [event async for event in await api.responses.create(**RESPONSE)]
    assert events[-1].type == "response.failed"
