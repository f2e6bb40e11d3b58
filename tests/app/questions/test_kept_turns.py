"""Over HTTP, a conversation goes on from what was kept of its turns, and answers do not show it."""

from typing import Any
from uuid import UUID

import pytest
from starlette.testclient import TestClient

from app.services.services import Services
from tests.app.seeding import StorageSeeder

QUESTION = {"question": "When does the gate close?", "max_tokens": 8}


@pytest.fixture
def document_id(client: TestClient, seeder: StorageSeeder) -> str:
    return seeder.ready(client)


@pytest.fixture
def ask(client: TestClient, services: Services, document_id: str):
    """Ask, once what can be kept of the answers before is kept."""

    def asked(**fields: Any) -> Any:
        assert services.engine_loop.activity.wait_until_idle(10)
        answered = client.post(f"/documents/{document_id}/ask", json=QUESTION | fields)
        assert answered.status_code == 200, answered.text
        assert services.engine_loop.activity.wait_until_idle(10)
        return answered.json()

    return asked


def test_turns_that_are_named_sent_along_or_evicted_are_the_same_turns(
    ask, services: Services, document_id: str
) -> None:
    first = ask(keep=True)
    assert first["usage"]["kept_tokens"] == 0
    turns = [{"question": QUESTION["question"], "answer": first["answer"]}]
    named = ask(question="And the east wing?", previous_answer_id=first["answer_id"])
    sent = ask(question="And the east wing?", turns=turns)
    services.engine.turn_states.drop(UUID(document_id))
    evicted = ask(question="And the east wing?", turns=turns)
    assert named["usage"]["kept_tokens"] == sent["usage"]["kept_tokens"] > 0
    assert evicted["usage"]["kept_tokens"] == 0
    for one in (sent, evicted):
        assert one["answer"] == named["answer"]
        assert one["evidence"] == named["evidence"]
        assert one["usage"]["question_tokens"] == named["usage"]["question_tokens"]


def test_a_single_question_keeps_nothing_and_a_deleted_document_leaves_nothing(
    ask, client: TestClient, services: Services, document_id: str
) -> None:
    ask()
    assert services.engine.turn_states.num_bytes == 0
    ask(keep=True)
    assert services.engine.turn_states.owners() == {UUID(document_id)}
    client.delete(f"/documents/{document_id}")
    assert services.engine.turn_states.num_bytes == 0


def test_what_another_process_deletes_is_forgotten(
    ask, services: Services, seeder: StorageSeeder, document_id: str
) -> None:
    ask(keep=True)
    seeder.delete(document_id)
    services.deleted_documents.forget()
    assert services.engine.turn_states.num_bytes == 0


def test_turns_without_a_document_go_with_their_tenant(
    client: TestClient, services: Services, seeder: StorageSeeder
) -> None:
    body = {"model": "lectern", "input": "Who closes the gate?", "max_output_tokens": 4}
    assert client.post("/v1/responses", json=body).status_code == 200
    assert services.engine_loop.activity.wait_until_idle(10)
    assert services.engine.turn_states.num_bytes > 0
    assert services.deleted_documents.forget() == 0
    services.storage.delete_tenant(seeder.tenants["owner"])
    assert services.deleted_documents.forget() == 1
    assert services.engine.turn_states.num_bytes == 0


def test_another_tenants_turns_are_not_gone_on_from(
    ask, client: TestClient, services: Services, seeder: StorageSeeder, other_tenant: dict[str, str]
) -> None:
    first = ask(keep=True)
    turns = [{"question": QUESTION["question"], "answer": first["answer"]}]
    client.headers.update(other_tenant)
    mine = seeder.ready(client)
    body = QUESTION | {"question": "And the east wing?", "turns": turns}
    answered = client.post(f"/documents/{mine}/ask", json=body).json()
    assert answered["usage"]["kept_tokens"] == 0, "it is the same file with the same turns"


def test_chats_that_send_all_turns_go_on_from_kept_ones(
    client: TestClient, services: Services, document_id: str
) -> None:
    def chat(messages: list[dict[str, str]]) -> Any:
        body = {"model": f"lectern/{document_id}", "messages": messages, "max_tokens": 8}
        answered = client.post("/v1/chat/completions", json=body).json()
        assert services.engine_loop.activity.wait_until_idle(10)
        return answered

    messages = [{"role": "user", "content": "Who closes the gate?"}]
    first = chat(messages)
    messages += [first["choices"][0]["message"], {"role": "user", "content": "When?"}]
    second = chat([{name: one[name] for name in ("role", "content")} for one in messages])
    cached = [one["usage"]["prompt_tokens_details"]["cached_tokens"] for one in (first, second)]
    assert cached[1] > cached[0]
