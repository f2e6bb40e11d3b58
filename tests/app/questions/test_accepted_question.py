"""Callers that disconnect, documents that are deleted, servers that stop, on real sockets."""

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from app.factory import create_app
from app.http.server import make_server
from app.services.services import Services
from common.errors import DatabaseUnavailable
from engine.decode.answer import Answer, TextDelta
from storage.db.records import DocumentRecord
from tests.app.documents.test_routes import counted_statements, events
from tests.app.engines import answer_of, with_script
from tests.app.live import listening, send_raw, until
from tests.app.seeding import StorageSeeder

TRIALS = 10


@dataclass
class StoppableEngine:
    """Answers nothing until it is stopped or released; `talks` sends a first piece."""

    talks: bool = True
    running: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    release: threading.Event = field(default_factory=threading.Event)
    stopped: int = 0

    def __call__(self, *_: object, **__: object) -> Iterator[TextDelta | Answer]:
        self.running.release()
        try:
            if self.talks:
                yield TextDelta("The gate")
            while not self.release.wait(0.01):
                yield TextDelta("")
        except GeneratorExit:
            self.stopped += 1
            raise
        yield answer_of("The gate")


@pytest.fixture
def engine() -> StoppableEngine:
    """The engine in place of the real one."""
    return StoppableEngine()


@pytest.fixture
def services(services: Services, engine: StoppableEngine) -> Services:
    """Services whose answers take as long as the test wants."""
    return with_script(services, engine)


@pytest.fixture
def document_id(seeder: StorageSeeder) -> str:
    """A ready document."""
    document = seeder.add("a.txt")
    seeder.publish()
    return str(document.id)


def idle(services: Services) -> bool:
    load = services.question_queue.load()
    return load.running + load.waiting == 0


def raw_question(seeder: StorageSeeder, document_id: str, *, stream: bool) -> bytes:
    body = json.dumps({"question": "When?", "stream": stream}).encode()
    head = (
        f"POST /documents/{document_id}/ask HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: {seeder.headers()['authorization']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def leave(connection: socket.socket, *, abruptly: bool) -> None:
    if abruptly:  # RST instead of FIN
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()


@pytest.mark.parametrize("abruptly", [False, True], ids=["fin", "rst"])
@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("talks", [False, True], ids=["silent", "talking"])
def test_a_caller_who_leaves_frees_the_slot(
    address: str,
    services: Services,
    seeder: StorageSeeder,
    engine: StoppableEngine,
    document_id: str,
    stream: bool,
    talks: bool,
    abruptly: bool,
) -> None:
    engine.talks = talks
    for _ in range(TRIALS):
        connection = send_raw(address, raw_question(seeder, document_id, stream=stream))
        assert engine.running.acquire(timeout=10)
        leave(connection, abruptly=abruptly)
        until(lambda: idle(services), timeout_s=2)
    assert engine.stopped == TRIALS


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
def test_a_caller_who_leaves_the_queue_frees_the_place(
    address: str,
    services: Services,
    seeder: StorageSeeder,
    engine: StoppableEngine,
    document_id: str,
    stream: bool,
) -> None:
    question = raw_question(seeder, document_id, stream=stream)
    first = send_raw(address, question)
    assert engine.running.acquire(timeout=10)
    for _ in range(TRIALS):
        second = send_raw(address, question)
        until(lambda: services.question_queue.load().waiting == 1)
        leave(second, abruptly=False)
        until(lambda: services.question_queue.load().waiting == 0, timeout_s=2)
    assert services.question_queue.load().running == 1
    first.close()


def ask(address: str, seeder: StorageSeeder, document_id: str, **body: Any) -> httpx.Response:
    return httpx.post(
        f"{address}/documents/{document_id}/ask",
        json={"question": "When?", **body},
        headers=seeder.headers(),
        timeout=30,
    )


def test_a_full_queue_is_refused_until_there_is_room(
    address: str,
    services: Services,
    seeder: StorageSeeder,
    engine: StoppableEngine,
    document_id: str,
) -> None:
    with ThreadPoolExecutor(3) as pool:
        accepted = [pool.submit(ask, address, seeder, document_id, stream=True) for _ in range(3)]
        until(lambda: services.question_queue.load().waiting == 2)
        refused = ask(address, seeder, document_id)
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "too_many_questions"
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert int(refused.headers["retry-after"]) > 0
        engine.release.set()
        assert [future.result(10).status_code for future in accepted] == [200] * 3
    assert ask(address, seeder, document_id, stream=True).status_code == 200


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "by another process"])
def test_deleting_a_document_ends_its_answers(
    address: str,
    services: Services,
    seeder: StorageSeeder,
    engine: StoppableEngine,
    document_id: str,
    elsewhere: bool,
) -> None:
    with ThreadPoolExecutor(2) as pool, capture_logs() as logs:
        streamed = pool.submit(ask, address, seeder, document_id, stream=True)
        assert engine.running.acquire(timeout=10)
        waiting = pool.submit(ask, address, seeder, document_id)
        until(lambda: services.question_queue.load().waiting == 1)
        if elsewhere:
            seeder.delete(document_id)
        else:
            url = f"{address}/documents/{document_id}"
            assert httpx.delete(url, headers=seeder.headers()).status_code == 204
        until(lambda: idle(services), timeout_s=4)
        (_, piece), (name, error) = events(streamed.result(10).text)
        assert piece == {"text": "The gate"}
        assert (name, error["error"]["code"]) == ("error", "document_deleted")
        assert waiting.result(10).status_code == 404
        assert waiting.result(10).json()["error"]["code"] == "document_deleted"
    codes = [line["code"] for line in logs if line["event"] == "no answer"]
    assert codes == ["document_deleted"] * 2  # and not that the callers had gone
    assert ask(address, seeder, document_id).json()["error"]["code"] == "document_not_found"


def test_a_server_that_stops_lets_answers_finish_and_refuses_new_ones(
    services: Services, seeder: StorageSeeder, engine: StoppableEngine, document_id: str
) -> None:
    server = make_server(create_app(services), services, host="127.0.0.1", port=0)
    with listening(server) as address, ThreadPoolExecutor(1) as pool:
        running = pool.submit(ask, address, seeder, document_id, stream=True)
        assert engine.running.acquire(timeout=10)
        server.handle_exit(15, None)
        refused = ask(address, seeder, document_id)
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "shutting_down"
        assert httpx.get(f"{address}/readyz").status_code == 503
        assert not server.should_exit
        engine.release.set()
        assert running.result(10).status_code == 200
        until(lambda: server.should_exit)


def test_a_server_that_must_stop_tells_who_still_waits(
    services: Services,
    seeder: StorageSeeder,
    engine: StoppableEngine,
    document_id: str,
    monkeypatch,
) -> None:
    monkeypatch.setattr("app.http.server.DRAIN_S", 0.2)
    monkeypatch.setattr("app.factory.GRACE_S", 0.1)
    server = make_server(create_app(services), services, host="127.0.0.1", port=0)
    with listening(server) as address, ThreadPoolExecutor(1) as pool:
        running = pool.submit(ask, address, seeder, document_id, stream=True)
        assert engine.running.acquire(timeout=10)
        server.handle_exit(15, None)
        (_, _), (name, error) = events(running.result(20).text)
        assert (name, error["error"]["code"]) == ("error", "shutting_down")
    assert engine.stopped == 1


def test_a_slow_answer_times_out(
    settings: Any,
    services: Services,
    seeder: StorageSeeder,
    engine: StoppableEngine,
    document_id: str,
    address: str,
) -> None:
    services.question_queue._timeout_s = 0.3
    engine.talks = False
    response = ask(address, seeder, document_id)
    assert response.status_code == 504
    assert response.json()["error"]["code"] == "question_timeout"
    until(lambda: idle(services), timeout_s=2)


def test_an_answer_goes_on_while_the_database_is_away(
    address: str,
    services: Services,
    seeder: StorageSeeder,
    engine: StoppableEngine,
    document_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = threading.Semaphore(0)

    def away(*_: object) -> None:
        looks.release()
        raise DatabaseUnavailable("The database does not answer.")

    with ThreadPoolExecutor(1) as pool:
        streamed = pool.submit(ask, address, seeder, document_id, stream=True)
        assert engine.running.acquire(timeout=10)
        for name in ("get", "find"):
            monkeypatch.setattr(services.storage.documents, name, away)
        for original in (services.data_dir / "blobs").iterdir():
            original.unlink()  # as a deletion does, so that the database is asked about it
        services.deleted_documents.stop_questions()
        assert looks.acquire(timeout=10), "its document is looked after"
        assert ask(address, seeder, document_id).status_code == 503
        engine.release.set()
        response = streamed.result(10)
    assert response.status_code == 200
    assert events(response.text)[0] == ("piece", {"text": "The gate"})


def test_a_question_asks_sql_nothing_while_it_is_being_answered(
    address: str,
    services: Services,
    seeder: StorageSeeder,
    engine: StoppableEngine,
    document_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = threading.Semaphore(0)
    look = services.storage.documents.is_deleted

    def counted(document: DocumentRecord) -> bool:
        looks.release()
        return look(document)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(ask, address, seeder, document_id, stream=True)
        assert engine.running.acquire(timeout=10)
        is_noted = threading.Event()  # that the document is used, which is written beside
        services.background_writes.add(is_noted.set)
        assert is_noted.wait(10)
        with counted_statements() as statements:
            monkeypatch.setattr(services.storage.documents, "is_deleted", counted)
            services.deleted_documents.stop_questions()
            assert looks.acquire(timeout=10), "its document is looked after"
            assert statements == []
        engine.release.set()
        assert running.result(10).status_code == 200
