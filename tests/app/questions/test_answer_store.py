"""The same question again is answered from SQL, and only where that is the same answer."""

import json
import threading
from typing import Any
from uuid import UUID

import pytest
from openai import OpenAI
from starlette.testclient import TestClient

from app.questions.answer_store import HEADER
from app.services.services import Services
from cli.settings import Settings
from tests.app.seeding import FINGERPRINT, StorageSeeder

QUESTION = {"question": "When does the gate close?", "max_tokens": 8}


def all_written(services: Services) -> None:
    """Wait until what was given to the thread of writes so far is written."""
    written = threading.Event()
    services.background_writes.add(written.set)
    assert written.wait(10)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"stored_answer_hours": 1.0})


@pytest.fixture
def document_id(client: TestClient, seeder: StorageSeeder) -> str:
    return seeder.ready(client)


@pytest.fixture
def ask(client: TestClient, services: Services, document_id: str):
    """Ask the ready document, once what was answered before is stored."""

    def asked(**fields: Any):
        all_written(services)
        return client.post(f"/documents/{document_id}/ask", json=QUESTION | fields)

    return asked


def test_the_same_question_is_answered_from_the_store_and_says_so(ask) -> None:
    first, second = ask(), ask()
    assert (first.headers[HEADER], second.headers[HEADER]) == ("computed", "stored")
    was, now = first.json(), second.json()
    for of_this_request in ("timings_ms", "cache_hit"):
        del was[of_this_request], now[of_this_request]
    assert (was.pop("stored"), now.pop("stored")) == (False, True)
    assert now["usage"].pop("kv_bytes_read") == 0, "nothing was read this time"
    assert was["usage"].pop("kv_bytes_read") > 0
    assert now == was
    streamed = ask(stream=True)
    assert streamed.headers[HEADER] == "stored"
    assert json.dumps(was["answer"], ensure_ascii=False) in streamed.text
    last = streamed.text.partition("event: answer\ndata: ")[2]
    assert json.loads(last)["stored"] is True


@pytest.mark.parametrize(
    "change",
    [
        {"question": "When does it open?"},
        {"budget": "exact"},
        {"max_tokens": 7},
        {"stop": ["e"]},
        {"turns": [{"question": "Who?", "answer": "Nobody."}]},
        {"temperature": 0.5, "seed": 1},
        {"reuse_answer": False},
    ],
)
def test_another_question_or_a_wish_for_a_new_answer_is_worked_on(ask, change) -> None:
    ask()
    assert ask(**change).headers[HEADER] == "computed"
    if change.get("temperature") or "reuse_answer" in change:
        assert ask(**change).headers[HEADER] == "computed", "it was not stored either"


def test_an_answer_goes_with_its_reading_and_its_document(
    ask, client: TestClient, services: Services, seeder: StorageSeeder, document_id: str
) -> None:
    ask()
    services.storage.jobs.enqueue(UUID(document_id))
    seeder.publish(FINGERPRINT)
    assert ask().headers[HEADER] == "computed", "the document was read again meanwhile"
    assert ask().headers[HEADER] == "stored"
    client.delete(f"/documents/{document_id}")
    services.storage.db.erase_deleted()
    assert list(services.storage.find_traces(UUID(document_id))) == []


def test_a_stored_answer_is_another_turn_of_a_conversation(ask) -> None:
    ask()
    kept = ask(keep=True)
    assert kept.headers[HEADER] == "stored"
    following = ask(question="And then?", previous_answer_id=kept.json()["answer_id"])
    assert following.status_code == 200


def test_another_tenants_answer_is_not_found(
    ask, client: TestClient, services: Services, seeder: StorageSeeder, other_tenant
) -> None:
    ask()
    with_their_key = dict(client.headers)
    client.headers.update(other_tenant)
    theirs = seeder.ready(client)
    answered = client.post(f"/documents/{theirs}/ask", json=QUESTION)
    assert answered.headers[HEADER] == "computed"
    client.headers.update(with_their_key)


def test_the_openai_client_sees_where_an_answer_comes_from(
    services: Services, seeder: StorageSeeder, address: str
) -> None:
    document = seeder.add("maps.txt")
    seeder.publish()
    key = seeder.headers()["authorization"].removeprefix("Bearer ")
    part = {"type": "file", "file": {"file_id": str(document.id)}}
    text = {"type": "text", "text": "Who?"}
    chat = {"model": "lectern", "messages": [{"role": "user", "content": [part, text]}]}
    request = {"model": "lectern/maps.txt", "input": "When?", "max_output_tokens": 4}
    with OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0) as api:
        found = []
        for _ in range(2):
            raw = api.chat.completions.with_raw_response.create(**chat, max_tokens=4)
            found.append((raw.headers[HEADER], raw.parse().choices[0].message.content))
            all_written(services)
        assert [where for where, _ in found] == ["computed", "stored"]
        assert found[0][1] == found[1][1]
        answers = []
        for store in (True, False, True):
            raw = api.responses.with_raw_response.create(**request, store=store)
            all_written(services)
            answers.append((raw.headers[HEADER], raw.parse()))
        assert [where for where, _ in answers] == ["computed", "computed", "stored"]
        following = {"model": "lectern", "input": "And?", "max_output_tokens": 2}
        api.responses.create(**following, previous_response_id=answers[2][1].id)
        with pytest.raises(Exception, match="no such earlier answer"):
            api.responses.create(**following, previous_response_id=answers[1][1].id)
