"""Asking over HTTP: shapes, bounds, states; with the real engine."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from app.config import ServerConfig
from app.factory import create_app
from app.questions.checked_question import check_question
from app.questions.schemas import AnswerBody, QuestionBody
from app.services.services import Services
from common.errors import CorruptArtifact
from engine.decode.answer import Answer, TextDelta, Thinking
from engine.engine import Engine
from engine.model.generation import GenerationDefaults
from storage.db.tables import Job
from tests.app.conftest import SharedApp
from tests.app.documents.test_routes import events
from tests.app.engines import with_script
from tests.app.live import until
from tests.app.seeding import TEXT, StorageSeeder

QUESTION = {"question": "When does the gate close?", "max_tokens": 8}


def asking(client: TestClient, document_id: str):
    headers = {"content-type": "application/json"}
    path = f"/documents/{document_id}/ask"
    return lambda body: client.post(path, content=json.dumps(body), headers=headers)


@pytest.fixture
def ask(client: TestClient, seeder: StorageSeeder):
    """Ask the one ready document."""
    return asking(client, seeder.ready(client))


@pytest.fixture
def ask_shared(shared_app: SharedApp):
    """Ask a document that other tests ask, too."""
    return asking(shared_app.client, shared_app.document_id)


def test_an_answer_has_all_its_parts(ask, seeder: StorageSeeder) -> None:
    response = ask({**QUESTION, "budget": "exact"})
    body = response.json()
    assert response.status_code == 200
    assert AnswerBody.model_validate(body).model_dump() == body
    assert body["finish_reason"] in ("stop", "length")
    assert body["budget"]["requested"] == 1.0
    assert body["budget"]["loaded"] == pytest.approx(1.0, abs=0.2)
    assert body["budget"]["raised"] is False
    assert body["usage"]["document_tokens"] == seeder.cache.num_tokens
    assert body["usage"]["kv_bytes_resident"] == seeder.cache.kv_bytes
    assert body["cache_hit"] is False
    times = body["timings_ms"]
    assert {"queue", "load", "question_prefill", "first_token", "decode", "total"} <= set(times)
    assert times["total"] >= times["first_token"] >= times["load"] > 0
    for passage in body["evidence"]:
        assert {"quote", "page", "start_char", "end_char", "weight"} <= set(passage)
        assert passage["paragraph"] > 0
        assert TEXT[passage["start_char"] : passage["end_char"]] == passage["quote"]
    assert (body["mode"], body["quotes"]) == ("free", [])
    assert body["confidence"]["mean_log_probability"] < 0 < body["confidence"]["document_attention"]
    for claim in body["grounded"]:
        assert body["answer"][claim["start"] : claim["end"]] == claim["text"]


def test_a_quoting_answer_says_where_its_quotes_stand(ask_shared) -> None:
    body = ask_shared({**QUESTION, "mode": "quote"}).json()
    assert (body["mode"], body["grounded"]) == ("quote", None)
    assert body["refused"] or body["quotes"]
    for quote in body["quotes"]:
        assert TEXT[quote["start_char"] : quote["end_char"]] == quote["text"]
        shown = body["answer"][quote["answer_start"] : quote["answer_end"]]
        assert shown == " ".join(quote["text"].split())


def test_the_budget_auto_says_what_it_chose_and_predicts(ask_shared) -> None:
    budget = ask_shared({**QUESTION, "budget": "auto", "tolerance": 0.3}).json()["budget"]
    assert budget["tolerance"] == 0.3
    assert budget["predicted_loss"] <= 0.3
    assert ask_shared({**QUESTION, "tolerance": 0.3}).json()["error"]["param"] == "tolerance"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, (0.0, 1.0, 0, 0.0)),
        ({"temperature": 0.7, "top_p": 0.5}, (0.7, 0.5, 0, 0.0)),
        ({"temperature": None, "top_p": None}, (0.0, 1.0, 0, 0.0)),
    ],
)
def test_an_answer_says_how_its_tokens_were_chosen(
    ask, given: dict[str, Any], wanted: tuple[float, ...]
) -> None:
    sampling = ask({**QUESTION, **given}).json()["sampling"]
    names = ("temperature", "top_p", "top_k", "min_p")
    assert tuple(sampling[name] for name in names) == wanted
    assert sampling["repetition_penalty"] == 1.0


def test_the_models_own_way_of_choosing_tokens_counts_where_settings_say_so() -> None:
    own = GenerationDefaults(temperature=0.6, top_p=0.95, top_k=20, min_p=0.1)
    limits = replace(ServerConfig(), sampling="model")

    def chosen(config: ServerConfig, **given: Any) -> tuple[float, ...]:
        body = QuestionBody(question="Why?", **given)
        sampling = check_question(body, config, own).sampling
        return sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p

    assert chosen(limits) == (0.6, 0.95, 20, 0.1)
    assert chosen(limits, temperature=0.0) == (0.0, 0.95, 20, 0.1)
    assert chosen(limits, top_p=0.5) == (0.6, 0.5, 20, 0.1)
    assert chosen(ServerConfig()) == (0.0, 1.0, 0, 0.0)


def test_thinking_comes_in_events_and_a_field_of_its_own(
    services: Services, seeder: StorageSeeder
) -> None:
    def thinks(*given: Any, **options: Any):
        yield TextDelta("Hm.", is_thinking=True)
        for item in Engine(services.engine.model).answer(*given, **options):
            if isinstance(item, Answer):
                yield replace(item, thinking=Thinking("Hm.", 5, is_cut=True))
            else:
                yield item

    with TestClient(create_app(with_script(services, thinks)), headers=seeder.headers()) as client:
        path = f"/documents/{seeder.ready(client)}/ask"
        response = client.post(path, json={**QUESTION, "stream": True})
        first, *_, (name, last) = events(response.text)
        assert first == ("thinking", {"text": "Hm."})
        assert name == "answer"
        assert last["thinking"] == {"text": "Hm.", "num_tokens": 5, "is_cut": True}
        assert client.post(path, json=QUESTION).json()["thinking"] == last["thinking"]


def test_the_second_question_finds_the_document_in_memory(ask) -> None:
    first, second = ask(QUESTION).json(), ask(QUESTION).json()
    assert (first["cache_hit"], second["cache_hit"]) == (False, True)
    assert second["timings_ms"]["load"] == 0
    assert second["answer"] == first["answer"]


def test_a_stream_brings_the_same_answer_in_pieces(ask) -> None:
    whole = ask(QUESTION).json()
    response = ask({**QUESTION, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    *pieces, (name, last) = events(response.text)
    assert {kind for kind, _ in pieces} == {"piece"}
    assert "".join(str(data["text"]) for _, data in pieces) == whole["answer"]
    assert name == "answer"
    assert {**last, "timings_ms": 0, "cache_hit": 0} == {**whole, "timings_ms": 0, "cache_hit": 0}


@pytest.mark.parametrize(
    ("budget", "requested"),
    [("fast", 0.05), ("balanced", 0.15), ("exact", 1.0), (0.5, 0.5), (1, 1.0), (None, 0.15)],
)
def test_budgets(ask_shared, budget: object, requested: float) -> None:
    given = {} if budget is None else {"budget": budget}
    report = ask_shared({**QUESTION, **given}).json()["budget"]
    assert report["requested"] == requested
    assert report["applied"] >= requested
    assert report["raised"] == (report["applied"] > requested)


def test_a_seed_makes_a_sampled_answer_repeatable(ask_shared) -> None:
    drawn = {**QUESTION, "temperature": 1.5, "top_p": 0.9, "seed": 7}
    assert ask_shared(drawn).json()["answer"] == ask_shared(drawn).json()["answer"]
    answers = {ask_shared({**drawn, "seed": seed}).json()["answer"] for seed in range(4)}
    assert len(answers) > 1


def test_max_tokens_cuts_the_answer(ask_shared) -> None:
    body = ask_shared({**QUESTION, "max_tokens": 3}).json()
    assert body["usage"]["completion_tokens"] <= 3


@pytest.mark.parametrize(
    ("change", "status", "code", "param"),
    [
        ({"question": ""}, 422, "empty_question", "question"),
        ({"question": " \n\x00\t "}, 422, "empty_question", "question"),
        ({"question": "x" * 8_001}, 422, "question_too_long", "question"),
        ({"question": "x" * 3_900}, 422, "question_too_long", "question"),  # more than fits
        ({"question": 3}, 422, "invalid_request", "question"),
        ({"question": None}, 422, "invalid_request", "question"),
        ({"question": "half \ud800 a pair"}, 422, "invalid_request", "question"),
        ({"budget": "cheap"}, 422, "invalid_request", "budget"),
        ({"budget": 0}, 422, "invalid_request", "budget"),
        ({"budget": 1.01}, 422, "invalid_request", "budget"),
        ({"budget": -1}, 422, "invalid_request", "budget"),
        ({"budget": True}, 422, "invalid_request", "budget"),
        ({"budget": "0.5"}, 422, "invalid_request", "budget"),
        ({"budget": [0.5]}, 422, "invalid_request", "budget"),
        ({"max_tokens": 0}, 422, "invalid_request", "max_tokens"),
        ({"max_tokens": 1.5}, 422, "invalid_request", "max_tokens"),
        ({"max_tokens": 65}, 400, "invalid_input", "max_tokens"),
        ({"max_thinking_tokens": -1}, 422, "invalid_request", "max_thinking_tokens"),
        ({"max_thinking_tokens": 2049}, 400, "invalid_input", "max_thinking_tokens"),
        ({"temperature": -0.1}, 422, "invalid_request", "temperature"),
        ({"temperature": 2.1}, 422, "invalid_request", "temperature"),
        ({"temperature": "1"}, 422, "invalid_request", "temperature"),
        ({"top_p": 0}, 422, "invalid_request", "top_p"),
        ({"top_p": 1.1}, 422, "invalid_request", "top_p"),
        ({"seed": -1}, 422, "invalid_request", "seed"),
        ({"seed": 2**63}, 422, "invalid_request", "seed"),
        ({"stream": "yes"}, 422, "invalid_request", "stream"),
        ({"n": 5}, 422, "invalid_request", "n"),
    ],
)
def test_bad_questions_are_refused(ask_shared, change, status: int, code: str, param: str) -> None:
    for stream in (False, True):
        response = ask_shared({**QUESTION, "stream": stream, **change})
        error = response.json()["error"]
        assert (response.status_code, error["code"], error["param"]) == (status, code, param)
        assert error["message"]
        assert len(error["message"]) < 500


def test_a_missing_question_is_an_empty_one(ask_shared) -> None:
    assert ask_shared({"budget": "fast"}).json()["error"]["code"] == "empty_question"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "-Infinity"])
@pytest.mark.parametrize("name", ["temperature", "top_p", "budget"])
def test_numbers_that_are_none(shared_app: SharedApp, name: str, number: str) -> None:
    path = f"/documents/{shared_app.document_id}/ask"
    content = f'{{"question": "When?", "{name}": {number}}}'
    headers = {"content-type": "application/json"}
    assert shared_app.client.post(path, content=content, headers=headers).status_code == 422


@pytest.mark.parametrize("temperature", [0, 1e-300, 1e-4, 2])
def test_any_allowed_temperature_works(ask_shared, temperature: float) -> None:
    assert ask_shared({**QUESTION, "temperature": temperature}).status_code == 200


def test_text_of_every_script_passes(ask) -> None:
    for text in ("Wann schließt das Tor? 💥", "متى يغلق الباب؟", "e\u0301" * 300, "a\x00b"):
        assert ask({**QUESTION, "question": text}).status_code == 200


def test_a_document_that_is_not_ready_yet(client: TestClient, seeder: StorageSeeder) -> None:
    document_id = seeder.upload(client)
    for stream in (False, True):
        response = client.post(f"/documents/{document_id}/ask", json={**QUESTION, "stream": stream})
        assert response.status_code == 409
        assert response.json()["error"]["code"] == "document_not_ready"
        assert int(response.headers["retry-after"]) > 0
    job = seeder.storage.jobs.claim("test", 60.0)
    assert job is not None
    seeder.storage.jobs.progress(job, "prefill", 512, 2048)
    response = client.post(f"/documents/{document_id}/ask", json=QUESTION)
    assert "512 of 2,048 tokens" in response.json()["error"]["message"]


def test_a_caller_is_told_when_a_document_will_be_ready(
    client: TestClient, seeder: StorageSeeder
) -> None:
    seeder.ready(client)
    with seeder.storage.db.session() as session:  # it took a second for each of its bytes
        (job,) = session.scalars(select(Job))
        job.finished_at = job.started_at + timedelta(seconds=len(TEXT))
    waits = [seeder.upload(client, "x" * num_bytes) for num_bytes in (30, 70)]
    told = [client.post(f"/documents/{one}/ask", json=QUESTION).headers for one in waits]
    assert [int(headers["retry-after"]) for headers in told] == [30, 100]


def test_a_failed_document(client: TestClient, seeder: StorageSeeder) -> None:
    document_id = seeder.upload(client)
    seeder.fail("document_too_long", "It has 9 tokens, the model holds 8.")
    response = client.post(f"/documents/{document_id}/ask", json=QUESTION)
    assert response.status_code == 422
    assert response.json()["error"]["code"] == "document_failed"
    assert "document_too_long" in response.json()["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_cache_of_another_model_is_never_answered_from(
    client: TestClient, seeder: StorageSeeder, stream: bool
) -> None:
    document_id = seeder.ready(client, fingerprint="another-model")
    path = f"/documents/{document_id}/ask"
    response = client.post(path, json={**QUESTION, "stream": stream})
    assert response.status_code == 409
    assert response.json()["error"]["code"] == "cache_stale"
    assert client.get(f"/documents/{document_id}").json()["status"] == "rebuilding"
    assert client.post(path, json=QUESTION).json()["error"]["code"] == "cache_rebuilding"
    seeder.publish()
    assert client.post(path, json=QUESTION).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_damaged_cache_is_rebuilt(
    client: TestClient, seeder: StorageSeeder, services: Services, stream: bool
) -> None:
    document_id = seeder.ready(client)
    flip_a_bit(services)
    path = f"/documents/{document_id}/ask"
    response = client.post(path, json={**QUESTION, "stream": stream})
    assert response.status_code == 409
    assert response.json()["error"]["code"] == "cache_rebuilding"
    assert client.get(f"/documents/{document_id}").json()["status"] == "rebuilding"
    seeder.publish()
    assert client.post(path, json=QUESTION).status_code == 200


def flip_a_bit(services: Services) -> None:
    files = sorted(services.data_dir.rglob("layer-*.safetensors"))
    assert files
    data = bytearray(files[0].read_bytes())
    data[len(data) // 2] ^= 4
    files[0].write_bytes(data)


def test_an_answer_is_counted_without_its_words(ask, services: Services) -> None:
    ask(QUESTION)
    ask({**QUESTION, "stream": True})
    until(lambda: services.storage.answers.summary().num_answers == 2)
    summary = services.storage.answers.summary()
    assert (summary.hits, summary.misses) == (1, 1)
    raw = b"".join(path.read_bytes() for path in services.data_dir.glob("lectern.sqlite3*"))
    assert b"When does the gate close" not in raw


def test_every_answer_is_a_line_of_ids_codes_and_durations(
    client: TestClient, seeder: StorageSeeder
) -> None:
    path = f"/documents/{seeder.ready(client)}/ask"
    with capture_logs() as logs:
        answered = client.post(path, json=QUESTION)
        client.post(path, json={**QUESTION, "question": "x" * 3_900})
    answer, first_request, failure, second_request = logs
    assert (answer["event"], answer["code"]) == ("answer", "ok")
    assert (failure["event"], failure["code"]) == ("no answer", "question_too_long")
    assert answer["request_id"] == answered.headers["x-request-id"]
    assert answer["document_id"] == failure["document_id"] == path.split("/")[2]
    assert {"queue_ms", "load_ms", "first_token_ms", "duration_ms", "num_tokens"} <= set(answer)
    assert failure["duration_ms"] >= 0
    assert [line["status"] for line in (first_request, second_request)] == [200, 422]
    assert "gate close" not in repr(logs)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_does_not_wait_for_sql_and_is_counted_later(
    ask, services: Services, stream: bool
) -> None:
    with closing(sqlite3.connect(services.data_dir / "lectern.sqlite3")) as other:
        other.execute("BEGIN IMMEDIATE")  # another writer holds the database
        response = ask({**QUESTION, "stream": stream})
        assert response.status_code == 200
        if stream:
            assert events(response.text)[-1][0] == "answer"
        assert services.storage.answers.summary().num_answers == 0
        other.rollback()
    until(lambda: services.storage.answers.summary().num_answers == 1)


def test_an_error_in_the_middle_of_a_stream_is_an_event(
    services: Services, seeder: StorageSeeder
) -> None:
    def breaks(*_: object, **__: object):
        yield TextDelta("The ga")
        raise CorruptArtifact("/secret/path")

    with TestClient(create_app(with_script(services, breaks)), headers=seeder.headers()) as client:
        path = f"/documents/{seeder.ready(client)}/ask"
        response = client.post(path, json={**QUESTION, "stream": True})
        assert response.status_code == 200
        assert "secret" not in response.text
        (first, piece), (last, body) = events(response.text)
        assert (first, piece) == ("piece", {"text": "The ga"})
        assert last == "error"
        assert body["error"]["code"] == "internal_error"  # type: ignore[index]
        assert client.post(path, json=QUESTION).status_code == 500
