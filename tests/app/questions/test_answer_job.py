"""The job of a question: what it reports about times, and what is recorded of it."""

from typing import Any, cast

import pytest
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from app.questions.answer_job import AnswerJob, AnswerParts
from app.questions.answer_store import AnswerStore
from app.questions.checked_question import CheckedQuestion
from app.questions.schemas import AnswerBody
from app.services.document_loader import DocumentLoader
from app.services.question_queue import PendingAnswer
from app.services.services import Services
from common.errors import DatabaseUnavailable
from common.owner import Owner
from engine.decode.sampling import Sampling
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.residents.documents import Lease
from engine.residents.entry import Tier
from storage.db.records import DocumentRecord
from tests.app.live import until
from tests.app.seeding import StorageSeeder

QUEUE_MS, LOAD_MS = 5000.0, 700.0
OWNER = Owner("a tenant", "a key")


class SlowLoader:
    """Has a document that took a while to load."""

    def __init__(self, cache: DocumentCache) -> None:
        self._cache = cache

    def lease(self, document: DocumentRecord) -> Lease[DocumentCache]:
        """See `DocumentLoader.lease`."""
        return Lease(self._cache, Tier.DISK, load_ms=LOAD_MS)


class Waited:
    """A pending answer that has waited for its slot."""

    queue_ms = QUEUE_MS

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.ended: list[Exception | None] = []

    def begin(self) -> None:
        """See `PendingAnswer.begin`."""

    def put(self, item: Any) -> None:
        """See `PendingAnswer.put`."""
        self.items.append(item)

    def reason(self, error: Exception | None) -> Exception | None:
        """See `PendingAnswer.reason`; it was not cancelled."""
        return error

    def end(self, error: Exception | None) -> None:
        """See `PendingAnswer.end`."""
        self.ended.append(error)


@pytest.fixture
def answered(client: TestClient, services: Services, seeder: StorageSeeder) -> AnswerBody:
    """The answer to a question that waited, about a document that had to be loaded."""
    return answer_late(client, services, seeder)


def answer_late(client: TestClient, services: Services, seeder: StorageSeeder) -> AnswerBody:
    """Answer a question that waited, about a document that had to be loaded."""
    seeder.ready(client)
    document = services.storage.documents.list(seeder.tenants["owner"], 1)[0]
    question = CheckedQuestion("When does the gate close?", 0.5, Sampling(max_tokens=2))
    loader = cast(DocumentLoader, SlowLoader(seeder.cache))
    parts = AnswerParts(
        services.engine.model,
        services.engine_loop,
        loader,
        services.storage.answers,
        services.background_writes,
        services.storage.turns,
        cast(AnswerStore, None),  # the question is not to be stored
        services.no_document,
    )
    pending = Waited()
    job = AnswerJob(
        parts, document.tenant_id, document, question, cast(PendingAnswer[Any], pending), OWNER
    )
    job.begin()
    with Engine(services.engine.model) as engine:  # the server's own is the loop's alone
        for item in engine.answer(
            job.open_document(),
            question.text,
            budget=question.budget,
            sampling=question.sampling,
        ):
            job.deliver(item)
    job.end(None)
    assert pending.ended == [None]
    last = pending.items[-1]
    assert isinstance(last, AnswerBody)
    return last


def test_times_count_from_the_questions_arrival(answered: AnswerBody) -> None:
    times = answered.timings_ms
    assert (times["queue"], times["load"]) == (QUEUE_MS, LOAD_MS)
    assert times["first_token"] > QUEUE_MS + LOAD_MS
    assert times["total"] >= times["first_token"]


def test_loading_is_taken_off_the_time_that_an_answer_saved(
    answered: AnswerBody, services: Services, seeder: StorageSeeder
) -> None:
    until(lambda: services.storage.answers.summary().num_answers == 1)
    summary = services.storage.answers.summary(seeder.tenants["owner"])
    assert summary.saved_ms == pytest.approx(1234.5 - LOAD_MS)  # 1234.5 is what reading took
    assert summary.first_token_ms == pytest.approx(answered.timings_ms["first_token"])
    assert (summary.hits, summary.misses) == (0, 1)


def test_an_answer_that_cannot_be_recorded_is_given_all_the_same(
    client: TestClient,
    services: Services,
    seeder: StorageSeeder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(**_: object) -> None:
        raise DatabaseUnavailable("The database does not answer.")

    monkeypatch.setattr(services.storage.answers, "record", fail)
    with capture_logs() as lines:
        assert answer_late(client, services, seeder).answer
        until(lambda: any("wait for the database" in line["event"] for line in lines))
