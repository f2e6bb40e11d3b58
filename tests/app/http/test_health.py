"""Probes tell the truth."""

from starlette.testclient import TestClient

from app.services.services import Services
from common.errors import DatabaseUnavailable


def test_a_working_server_is_ready(client: TestClient) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    response = client.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {
        "status": "ready",
        "checks": {"database": True, "questions": True, "accepting": True},
        "reasons": {},
    }


def test_without_its_database_it_is_alive_but_not_ready(
    client: TestClient, services: Services, monkeypatch
) -> None:
    def away() -> None:
        raise DatabaseUnavailable("Away.")

    monkeypatch.setattr(services.storage.db, "check", away)
    assert client.get("/healthz").status_code == 200
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["checks"] == {"database": False, "questions": True, "accepting": True}
    assert response.json()["reasons"] == {"database": "Away."}


def test_without_its_question_threads_it_is_not_ready(
    client: TestClient, services: Services
) -> None:
    services.question_queue.close(0.0)
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["checks"] == {"database": True, "questions": False, "accepting": False}
    assert set(response.json()["reasons"]) == {"questions", "accepting"}
