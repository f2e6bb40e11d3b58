"""When a document will be ready is judged by how long others took."""

from datetime import timedelta

import pytest
from sqlalchemy import update

from common.errors import DatabaseUnavailable
from storage.db.records import DocumentRecord
from storage.db.tables import Job
from storage.storage import Storage
from tests.storage.conftest import Upload
from tests.storage.publishing import publish

PACE = 0.5  # seconds a byte


def read_one(storage: Storage, upload: Upload) -> None:
    """Read a document at `PACE`."""
    document = upload("Read before, so that there is something to judge by.")
    publish(storage, document)
    _pretend(storage, document, PACE * document.num_bytes)


def _pretend(storage: Storage, document: DocumentRecord, seconds: float) -> None:
    """Let a document's job have begun so many seconds ago, and have ended now if it is over."""
    with storage.db.session() as session:
        now = storage.db.now(session)
        job = update(Job).where(Job.document_id == document.id)
        session.execute(job.values(started_at=now - timedelta(seconds=seconds)))
        session.execute(job.where(Job.finished_at.is_not(None)).values(finished_at=now))


def test_without_anything_read_nothing_is_known(storage: Storage, upload: Upload) -> None:
    assert storage.reading_times.seconds_until_ready(upload().id) is None


def test_a_queued_document_waits_for_those_before_it(storage: Storage, upload: Upload) -> None:
    read_one(storage, upload)
    first, second = upload("x" * 100), upload("y" * 300)
    estimate = storage.reading_times.seconds_until_ready
    assert estimate(first.id) == pytest.approx(PACE * 100, rel=0.05)
    assert estimate(second.id) == pytest.approx(PACE * 400, rel=0.05)


def test_a_document_being_read_needs_what_is_left(storage: Storage, upload: Upload) -> None:
    read_one(storage, upload)
    first, second = upload("x" * 100), upload("y" * 300)
    assert storage.jobs.claim("one", 30) is not None
    _pretend(storage, first, 20)
    estimate = storage.reading_times.seconds_until_ready
    assert estimate(first.id) == pytest.approx(PACE * 100 - 20, rel=0.1)
    assert estimate(second.id) == pytest.approx(PACE * 400 - 20, rel=0.1)
    _pretend(storage, first, 1000)  # longer than expected, so that it is not over at once
    assert estimate(first.id) == pytest.approx(100, rel=0.05)


def test_what_is_not_read_has_no_estimate(
    storage: Storage, upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = upload("Ready.")
    publish(storage, document)
    assert storage.reading_times.seconds_until_ready(document.id) is None

    def away() -> None:
        raise DatabaseUnavailable("Away.")

    monkeypatch.setattr(storage.db, "reading", away)
    assert storage.reading_times.seconds_until_ready(document.id) is None
