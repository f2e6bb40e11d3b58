"""Probes tell the truth, each with its reason."""

import time
from pathlib import Path

import pytest
import torch
from starlette.testclient import TestClient

from app.services.readiness import EngineCanary, disk_problem, queue_problem, workers_problem
from app.services.services import Services
from common.errors import DatabaseUnavailable
from tests.app.seeding import FINGERPRINT, StorageSeeder

CHECKS = ("database", "questions", "accepting", "engine", "weights", "workers", "queue", "disk")


def reasons(client: TestClient) -> dict[str, str]:
    """Why the server is not ready."""
    response = client.get("/readyz")
    body = response.json()
    assert response.status_code == 503
    assert body["status"] == "unavailable"
    assert {name for name, holds in body["checks"].items() if not holds} == set(body["reasons"])
    told: dict[str, str] = body["reasons"]
    return told


def test_a_working_server_is_ready(client: TestClient) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    response = client.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {
        "status": "ready",
        "checks": dict.fromkeys(CHECKS, True),
        "reasons": {},
    }


def test_without_its_database_it_is_alive_but_not_ready(
    client: TestClient, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise DatabaseUnavailable("Away.")

    monkeypatch.setattr(services.storage.db, "check", away)
    assert client.get("/healthz").status_code == 200
    assert reasons(client) == {"database": "Away."}


def test_without_its_question_threads_it_is_not_ready(
    client: TestClient, services: Services
) -> None:
    services.question_queue.close(0.0)
    assert set(reasons(client)) == {"questions", "accepting", "engine"}


def test_while_every_forward_pass_fails_it_is_not_ready(
    client: TestClient, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(services.engine.model.model, "forward", broken)
    assert "RuntimeError" in reasons(client)["engine"]
    assert client.get("/healthz").status_code == 200


def test_while_the_model_computes_nonsense_it_is_not_ready(
    client: TestClient, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nonsense(*_: object) -> torch.Tensor:
        return torch.full((1, 8), torch.nan)

    monkeypatch.setattr("engine.engine.probe_logits", nonsense)
    assert "EngineFault" in reasons(client)["engine"]


def test_a_pass_that_does_not_end_is_a_problem_and_no_second_one_is_begun() -> None:
    begun: list[int] = []

    def hang() -> None:
        begun.append(1)
        time.sleep(3.0)

    canary = EngineCanary(hang, every_s=0.0, limit_s=0.05)
    for _ in range(3):
        assert "not finished" in str(canary.problem())
    assert len(begun) == 1


def test_a_fault_that_has_passed_is_forgotten() -> None:
    faults = [ValueError()]

    def fail_once() -> None:
        if faults:
            raise faults.pop()

    canary = EngineCanary(fail_once, every_s=0.0)
    assert "ValueError" in str(canary.problem())
    assert canary.problem() is None


def test_a_result_counts_for_a_while_and_not_for_ever() -> None:
    begun: list[int] = []
    canary = EngineCanary(lambda: begun.append(1), every_s=60.0)
    assert [canary.problem() for _ in range(3)] == [None] * 3
    assert len(begun) == 1
    canary = EngineCanary(lambda: begun.append(1), every_s=0.0)
    assert [canary.problem() for _ in range(3)] == [None] * 3
    assert len(begun) == 4


def test_without_any_worker_it_is_not_ready(client: TestClient, services: Services) -> None:
    with services.storage.processes.alive("a worker", "worker", FINGERPRINT):
        pass  # it ends
    assert "No worker is running" in reasons(client)["workers"]


def test_a_worker_of_other_settings_does_not_help(services: Services) -> None:
    storage = services.storage.of("of other settings")
    assert "this server's model and settings" in str(workers_problem(storage))
    assert workers_problem(services.storage) is None


def test_documents_that_nobody_reads_are_a_problem(
    client: TestClient,
    seeder: StorageSeeder,
    services: Services,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeder.upload(client)
    assert queue_problem(services.storage) is None
    monkeypatch.setattr("app.services.readiness.STUCK_S", 0.0)
    assert "has waited" in str(queue_problem(services.storage))
    assert services.storage.jobs.claim("worker", 30) is not None
    seeder.upload(client, "Another text.")
    assert queue_problem(services.storage) is None, "one is being read"


def test_a_full_disk_is_a_problem(tmp_path: Path) -> None:
    assert disk_problem(tmp_path, 1) is None
    assert "free" in str(disk_problem(tmp_path, 1 << 60))
    assert "FileNotFoundError" in str(disk_problem(tmp_path / "nothing", 1))
