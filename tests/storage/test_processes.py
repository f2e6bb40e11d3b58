"""Servers and workers show that they live, and are forgotten when they do not."""

import time
from datetime import timedelta

import pytest
from sqlalchemy import select, update
from structlog.testing import capture_logs

from common.errors import DatabaseUnavailable
from storage.db.tables import Process
from storage.storage import Storage


def age(storage: Storage, seconds: float) -> None:
    """Let the last heartbeat of all be so long ago."""
    with storage.db.session() as session:
        moment = storage.db.now(session) - timedelta(seconds=seconds)
        session.execute(update(Process).values(heartbeat_at=moment))


def names(storage: Storage) -> list[str]:
    with storage.db.reading() as session:
        return list(session.scalars(select(Process.name)))


def wait_until_living(storage: Storage) -> None:
    deadline_s = time.monotonic() + 20
    while not storage.processes.living("worker"):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_a_process_is_shown_while_it_lives(storage: Storage) -> None:
    with storage.processes.alive("one", "worker", "now"):
        wait_until_living(storage)
        [process] = storage.processes.living("worker")
        assert (process.name, process.role, process.fingerprint) == ("one", "worker", "now")
        assert storage.processes.living("server") == ()
    assert names(storage) == []


def test_it_goes_on_showing_it(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.processes.BEAT_S", 0.02)
    with storage.processes.alive("one", "worker", "now"):
        wait_until_living(storage)
        age(storage, 1000)
        wait_until_living(storage)


@pytest.mark.parametrize("seconds", [25, -25])
def test_a_silent_process_counts_as_dead_and_its_row_is_kept_for_an_hour(
    storage: Storage, seconds: float
) -> None:
    storage.processes.beat("one", "worker", "now")
    age(storage, seconds)
    assert storage.processes.living("worker") == ()
    storage.processes.prune()
    assert names(storage) == ["one"]
    age(storage, 3700)
    storage.processes.prune()
    assert names(storage) == []


def test_a_database_that_is_away_does_not_end_it(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise DatabaseUnavailable("Away.")

    monkeypatch.setattr(storage.processes, "beat", away)
    with capture_logs() as logs, storage.processes.alive("one", "worker", "now"):
        deadline_s = time.monotonic() + 20
        while not logs:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
    assert logs[0]["reason"] == "database_unavailable"
