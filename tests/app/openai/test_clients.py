"""The official `openai` client against the real app on a real port, field by field."""

from collections.abc import Iterator

import openai
import pytest
from openai import OpenAI

from tests.app.seeding import TEXT, StorageSeeder


@pytest.fixture
def key(seeder: StorageSeeder) -> str:
    return seeder.headers()["authorization"].removeprefix("Bearer ")


@pytest.fixture
def api(address: str, key: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0) as client:
        yield client


@pytest.fixture
def file_id(seeder: StorageSeeder) -> str:
    document = seeder.add("maps.txt")
    seeder.publish()
    return str(document.id)


def about(file_id: str, question: str = "Who sold the maps?") -> list[dict[str, object]]:
    part = {"type": "file", "file": {"file_id": file_id}}
    return [{"role": "user", "content": [part, {"type": "text", "text": question}]}]


def test_a_chat_completion_has_all_that_clients_read(api, file_id):
    completion = api.chat.completions.create(
        model="lectern", messages=about(file_id), max_tokens=8, temperature=0, user="u1"
    )
    (choice,) = completion.choices
    assert completion.object == "chat.completion"
    assert completion.id.startswith("chatcmpl-")
    assert (choice.index, choice.message.role) == (0, "assistant")
    assert choice.finish_reason in ("stop", "length")
    usage = completion.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert 0 < usage.prompt_tokens_details.cached_tokens < usage.prompt_tokens
    assert usage.completion_tokens_details.reasoning_tokens == 0
    assert completion.model_extra["document_id"] == file_id
    assert completion.model_extra["budget"]["applied"] > 0
    assert completion.model_extra["evidence"] is not None


def test_a_chat_quotes_if_it_is_asked_to(api, file_id):
    completion = api.chat.completions.create(
        model="lectern", messages=about(file_id), max_tokens=8, extra_body={"mode": "quote"}
    )
    found, text = completion.model_extra, completion.choices[0].message.content
    assert found["mode"] == "quote"
    assert found["refused"] or found["quotes"]
    for quote in found["quotes"]:
        shown = text[quote["answer_start"] : quote["answer_end"]]
        assert shown == " ".join(quote["text"].split())
    response = api.responses.create(
        model="lectern",
        input=[{"role": "user", "content": [{"type": "input_file", "file_id": file_id},
                                            {"type": "input_text", "text": "Who?"}]}],
        max_output_tokens=8,
        extra_body={"mode": "quote", "budget": "auto"},
    )  # fmt: skip
    assert response.model_extra["mode"] == "quote"
    assert response.model_extra["budget"]["tolerance"] == 0.02


def test_a_stream_says_the_same_and_ends_with_its_usage(api, file_id):
    request = {"model": "lectern", "messages": about(file_id), "max_tokens": 8, "temperature": 0}
    whole = api.chat.completions.create(**request)
    chunks = list(
        api.chat.completions.create(**request, stream=True, stream_options={"include_usage": True})
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == (
        whole.choices[0].finish_reason
    )
    assert chunks[-1].choices == []
    assert chunks[-1].usage.total_tokens == whole.usage.total_tokens
    assert len({chunk.id for chunk in chunks}) == 1


def test_the_models_name_chooses_the_document(api, file_id):
    names = [model.id for model in api.models.list()]
    assert names[0] == "lectern"
    assert "lectern/maps.txt" in names
    completion = api.chat.completions.create(
        model="lectern/maps.txt", messages=[{"role": "user", "content": "Who?"}], max_tokens=4
    )
    assert completion.model_extra["document_id"] == file_id
    assert api.models.retrieve("lectern/maps.txt").object == "model"


def test_a_chat_without_a_document_is_the_models_own(api):
    completion = api.chat.completions.create(
        model="lectern", messages=[{"role": "user", "content": "A title, please."}], max_tokens=4
    )
    assert completion.model_extra["document_id"] is None
    assert completion.usage.prompt_tokens_details.cached_tokens == 0


def test_a_response_is_gone_on_with_by_its_id(api, file_id):
    part = [{"type": "input_file", "file_id": file_id}, {"type": "input_text", "text": "Who?"}]
    first = api.responses.create(
        model="lectern", input=[{"role": "user", "content": part}], max_output_tokens=6
    )
    assert first.output[0].type == "message"
    assert first.output_text == first.output[0].content[0].text
    assert first.usage.total_tokens == first.usage.input_tokens + first.usage.output_tokens
    second = api.responses.create(
        model="lectern", input="When?", previous_response_id=first.id, max_output_tokens=6
    )
    assert second.previous_response_id == first.id
    assert second.model_extra["document_id"] == file_id
    sent = api.chat.completions.create(
        model="lectern",
        messages=[
            *about(file_id, "Who?"),
            {"role": "assistant", "content": first.output_text},
            {"role": "user", "content": "When?"},
        ],
        max_tokens=6,
    )
    assert sent.choices[0].message.content == second.output_text
    assert sent.usage.prompt_tokens == second.usage.input_tokens


def test_a_response_streams_its_events_in_order(api, file_id):
    part = [{"type": "input_file", "file_id": file_id}, {"type": "input_text", "text": "Who?"}]
    events = list(
        api.responses.create(
            model="lectern",
            input=[{"role": "user", "content": part}],
            max_output_tokens=6,
            stream=True,
        )
    )
    types = [event.type for event in events]
    assert types[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert types[-1] in ("response.completed", "response.incomplete")
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == events[-1].response.output_text
    for citation in events[-1].response.output[0].content[0].annotations:
        assert citation.file_id == file_id
        assert TEXT[citation.start_char : citation.end_char].strip().startswith(citation.quote[:20])


@pytest.mark.parametrize(
    ("change", "error", "code", "param"),
    [
        ({"n": 2}, openai.BadRequestError, "unsupported_parameter", "n"),
        ({"logprobs": True}, openai.BadRequestError, "unsupported_parameter", "logprobs"),
        ({"model": "gpt-4o"}, openai.NotFoundError, "model_not_found", "model"),
        ({"model": "lectern/none.txt"}, openai.NotFoundError, "model_not_found", "model"),
        ({"temperature": 9}, openai.UnprocessableEntityError, "invalid_request", "temperature"),
        ({"messages": [{"role": "assistant", "content": "Hi."}]}, openai.BadRequestError,
         "invalid_input", "messages"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(api, change, error, code, param):
    request = {"model": "lectern", "messages": [{"role": "user", "content": "Who?"}]} | change
    with pytest.raises(error) as raised:
        api.chat.completions.create(**request)
    assert (raised.value.code, raised.value.param) == (code, param)
    assert raised.value.request_id.startswith("req_")


def test_a_file_that_is_not_there_or_not_read_yet(api, seeder):
    with pytest.raises(openai.NotFoundError) as missing:
        api.chat.completions.create(model="lectern", messages=about("file-1"))
    assert missing.value.code == "document_not_found"
    document = seeder.add("new.txt")
    with pytest.raises(openai.ConflictError) as early:
        api.chat.completions.create(model="lectern", messages=about(str(document.id)))
    assert early.value.code == "document_not_ready"
    assert int(early.value.response.headers["retry-after"]) >= 1


def test_a_foreign_answer_cannot_be_gone_on_with(api, address, file_id, seeder):
    first = api.responses.create(model="lectern", input="Who?", max_output_tokens=2)
    other = seeder.headers("other_tenant")["authorization"].removeprefix("Bearer ")
    with (
        OpenAI(base_url=f"{address}/v1", api_key=other, max_retries=0) as stranger,
        pytest.raises(openai.NotFoundError) as raised,
    ):
        stranger.responses.create(model="lectern", input="When?", previous_response_id=first.id)
    assert raised.value.code == "answer_not_found"


def test_a_file_lives_as_clients_expect(api):
    data = b"The gate is green."
    made = api.files.create(
        file=("gate.txt", data),
        purpose="user_data",
        expires_after={"anchor": "created_at", "seconds": 86_400},
    )
    assert (made.object, made.filename, made.bytes) == ("file", "gate.txt", len(data))
    assert (made.purpose, made.status) == ("user_data", "uploaded")
    assert made.expires_at - made.created_at == pytest.approx(86_400, abs=2)
    assert made.model_extra["precompute"]["status"] == "queued"
    assert api.files.retrieve(made.id).id == made.id
    assert api.files.content(made.id).read() == data
    assert api.files.create(file=("again.txt", data), purpose="user_data").id == made.id
    gone = api.files.delete(made.id)
    assert (gone.id, gone.object, gone.deleted) == (made.id, "file", True)
    with pytest.raises(openai.NotFoundError):
        api.files.retrieve(made.id)


def test_files_are_listed_in_pages_and_in_both_orders(api):
    ids = [
        api.files.create(file=(f"{number}.txt", f"Gate {number}.".encode()), purpose="user_data").id
        for number in range(5)
    ]
    assert [file.id for file in api.files.list(limit=2)] == ids[::-1]
    assert [file.id for file in api.files.list(limit=2, order="asc")] == ids
    assert list(api.files.list(purpose="batch")) == []


def test_waiting_for_a_file_ends_when_it_is_read_or_has_failed(api, file_id, seeder):
    assert api.files.wait_for_processing(file_id, poll_interval=0.01).status == "processed"
    waiting = api.files.create(file=("gate.txt", b"The gate is green."), purpose="user_data")
    seeder.fail("empty_document", "The document holds no text.")
    failed = api.files.wait_for_processing(waiting.id, poll_interval=0.01)
    assert failed.status == "error"
    assert failed.status_details == "empty_document: The document holds no text."


@pytest.mark.parametrize("seconds", [1, 10**12])
def test_a_files_time_has_bounds(api, seconds):
    with pytest.raises(openai.BadRequestError) as raised:
        api.files.create(
            file=("gate.txt", b"The gate is green."),
            purpose="user_data",
            expires_after={"anchor": "created_at", "seconds": seconds},
        )
    assert raised.value.param == "expires_after"
