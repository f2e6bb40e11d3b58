"""Faults of conversations: turns that are not there, belong elsewhere, or fit no more."""

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from starlette.testclient import TestClient

from app.services.services import Services
from common.errors import AnswerNotFound
from tests.app.seeding import TEXT, StorageSeeder

QUESTION = {"question": "When does the gate close?", "max_tokens": 4}
LONG = {"question": "Who? " * 300, "answer": "Nobody. " * 100}
SHORT = {"question": "Who closes it?", "answer": "The guard."}


@pytest.fixture
def document_id(client: TestClient, seeder: StorageSeeder) -> str:
    return seeder.ready(client)


@pytest.fixture
def ask(client: TestClient, document_id: str):
    """Ask the one ready document, or another one."""

    def asked(about: str = document_id, /, **fields: Any) -> Any:
        return client.post(f"/documents/{about}/ask", json=QUESTION | fields)

    return asked


def refusal(response: Any) -> tuple[int, str, str | None]:
    error = response.json()["error"]
    return response.status_code, error["code"], error["param"]


@pytest.mark.parametrize("unknown", ["", "x", "resp_1", str(UUID(int=1)), "0" * 64])
def test_an_earlier_answer_that_is_not_there(ask, unknown: str) -> None:
    refused = ask(previous_answer_id=unknown)
    assert refusal(refused) == (404, "answer_not_found", "previous_answer_id")
    assert "send the turns along" in refused.json()["error"]["message"]


def test_another_tenants_answer_is_answered_like_one_that_is_not_there(
    ask, client: TestClient, seeder: StorageSeeder, other_tenant: dict[str, str]
) -> None:
    theirs = ask(keep=True).json()["answer_id"]
    client.headers.update(other_tenant)
    mine = seeder.ready(client)
    foreign = ask(mine, previous_answer_id=theirs)
    unknown = ask(mine, previous_answer_id=str(uuid4()))
    assert foreign.status_code == 404
    assert foreign.json() == unknown.json()


def test_a_conversation_is_about_one_document(
    ask, client: TestClient, seeder: StorageSeeder
) -> None:
    other = seeder.ready(client, TEXT[::-1])
    begun = ask(keep=True).json()["answer_id"]
    refused = ask(other, previous_answer_id=begun)
    assert refusal(refused) == (400, "invalid_input", "previous_answer_id")
    assert "another document" in refused.json()["error"]["message"]


def test_turns_that_do_not_fit_are_an_error_that_counts(ask) -> None:
    refused = ask(turns=[LONG, LONG, SHORT])
    assert refusal(refused) == (422, "conversation_too_long", "question")
    assert "tokens" in refused.json()["error"]["message"]


def test_turns_that_do_not_fit_are_dropped_from_the_oldest_on_if_that_is_asked_for(ask) -> None:
    dropped = ask(turns=[LONG, LONG, SHORT], drop_oldest_turns=True).json()
    assert dropped["num_dropped_turns"] == 1
    left = ask(turns=[LONG, SHORT]).json()
    assert left["num_dropped_turns"] == 0
    assert dropped["answer"] == left["answer"]
    assert dropped["usage"]["question_tokens"] == left["usage"]["question_tokens"]


def test_a_question_that_fits_not_even_alone_is_too_long(ask) -> None:
    refused = ask(question="x" * 3_900, turns=[SHORT], drop_oldest_turns=True)
    assert refusal(refused) == (422, "question_too_long", "question")


@pytest.mark.parametrize("turns", [[{"question": "Who?"}], [{"question": "a", "answer": "\ud800"}]])
def test_a_turn_is_a_question_and_an_answer(client, document_id: str, turns: Any) -> None:
    refused = client.post(
        f"/documents/{document_id}/ask",
        content=json.dumps(QUESTION | {"turns": turns}),
        headers={"content-type": "application/json"},
    )
    assert refusal(refused) == (422, "invalid_request", "turns")


def test_an_answer_whose_conversation_is_gone_meanwhile_has_no_id(
    ask, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any, **__: Any) -> None:
        raise AnswerNotFound("It was deleted meanwhile.")

    monkeypatch.setattr(services.storage.turns, "add", gone)
    answered = ask(keep=True)
    assert (answered.status_code, answered.json()["answer_id"]) == (200, None)
