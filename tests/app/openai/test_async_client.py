"""The asynchronous `openai` client drives every call, several at once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from tests.app.seeding import StorageSeeder


@pytest.fixture
async def api(
    seeder: StorageSeeder, address: str, anyio_backend: str
) -> AsyncIterator[AsyncOpenAI]:
    seeder.add("maps.txt")
    seeder.publish()
    key = seeder.headers()["authorization"].removeprefix("Bearer ")
    async with AsyncOpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0) as client:
        yield client


@pytest.mark.anyio
async def test_it_drives_every_call(api: AsyncOpenAI) -> None:
    models = [model.id async for model in api.models.list()]
    assert models == ["lectern", "lectern/maps.txt"]
    assert (await api.models.retrieve("lectern/maps.txt")).id == "lectern/maps.txt"
    made = await api.files.create(
        file=("gate.txt", b"The gate is green."),
        purpose="user_data",
        extra_body={"metadata": '{"case": "17"}'},
    )
    assert made.model_extra["metadata"] == {"case": "17"}
    assert (await api.files.retrieve(made.id)).filename == "gate.txt"
    assert (await api.files.content(made.id)).content == b"The gate is green."
    assert [file.filename async for file in api.files.list(limit=1)] == ["gate.txt", "maps.txt"]
    assert (await api.files.delete(made.id)).deleted
    (maps,) = [file async for file in api.files.list()]
    assert (await api.files.wait_for_processing(maps.id)).status == "processed"

    chat: dict[str, Any] = {
        "model": "lectern/maps.txt",
        "messages": [{"role": "user", "content": "Who?"}],
        "max_tokens": 6,
    }
    whole, other = await asyncio.gather(
        api.chat.completions.create(**chat), api.chat.completions.create(**chat)
    )
    text = whole.choices[0].message.content
    assert text == other.choices[0].message.content
    chunks = [one async for one in await api.chat.completions.create(**chat, stream=True)]
    assert "".join(one.choices[0].delta.content or "" for one in chunks) == text

    request: dict[str, Any] = {"model": "lectern/maps.txt", "input": "Who?", "max_output_tokens": 6}
    response = await api.responses.create(**request)
    assert response.output_text == text
    async with api.responses.stream(**request) as stream:
        events = [event async for event in stream]
    assert events[-1].type in ("response.completed", "response.incomplete")
    assert events[-1].response.output_text == text
    following = await api.responses.create(
        **request | {"input": "When?"}, previous_response_id=response.id
    )
    assert following.previous_response_id == response.id


@pytest.mark.anyio
async def test_it_waits_until_files_are_read_or_have_failed(
    api: AsyncOpenAI, seeder: StorageSeeder
) -> None:
    ends = [seeder.publish, lambda: seeder.fail("empty_document", "The document holds no text.")]
    found = []
    for number, end in enumerate(ends):
        made = await api.files.create(
            file=(f"{number}.txt", f"Gate {number}.".encode()), purpose="user_data"
        )
        assert made.status == "uploaded"
        with pytest.raises(RuntimeError, match="Giving up"):
            await api.files.wait_for_processing(made.id, poll_interval=0.01, max_wait_seconds=0)
        waiting = asyncio.create_task(api.files.wait_for_processing(made.id, poll_interval=0.01))
        await asyncio.to_thread(end)
        found.append(await waiting)
    assert [file.status for file in found] == ["processed", "error"]
    assert found[1].status_details == "empty_document: The document holds no text."


@pytest.mark.anyio
async def test_it_reads_errors(api: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        await api.files.retrieve("file-1")
    assert missing.value.code == "document_not_found"
    with pytest.raises(openai.BadRequestError) as wrong:
        await api.chat.completions.create(
            model="lectern", messages=[{"role": "user", "content": "Who?"}], n=2
        )
    assert (wrong.value.code, wrong.value.param) == ("unsupported_parameter", "n")
