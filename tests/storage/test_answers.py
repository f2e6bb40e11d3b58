"""Figures of the dashboard: sums and means over answers, whatever became of their documents."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

from sqlalchemy import event, inspect, select, update

from storage.db.records import DocumentRecord
from storage.db.tables import Answer
from storage.storage import Storage
from tests.storage.conftest import Upload


def answer(storage: Storage, document: DocumentRecord, **changes: object) -> None:
    given: dict[str, object] = {
        "tenant_id": document.tenant_id,
        "document_id": document.id,
        "cache_hit": True,
        "budget_requested": 0.15,
        "budget_loaded": 0.14,
        "first_token_ms": 20.0,
        "total_ms": 100.0,
        "num_tokens": 7,
        "saved_ms": 1000.0,
    }
    storage.answers.record(**{**given, **changes})  # type: ignore[arg-type]


def test_answers_are_summed_up_for_one_tenant_or_all(storage: Storage, upload: Upload) -> None:
    mine = upload()
    theirs = upload(owner=storage.tenants.create("other"))
    answer(storage, mine, cache_hit=False, budget_requested=0.05, budget_loaded=0.06)
    answer(storage, mine, saved_ms=500.0)
    answer(storage, theirs)
    answer(storage, theirs, status="question_timeout", saved_ms=0.0)
    everybody = storage.answers.summary()
    assert (everybody.num_answers, everybody.hits, everybody.misses) == (3, 2, 1)
    assert everybody.saved_ms == 2500.0
    just_mine = storage.answers.summary(mine.tenant_id)
    assert (just_mine.num_answers, just_mine.hits, just_mine.misses) == (2, 1, 1)
    assert just_mine.budget_requested is not None
    assert abs(just_mine.budget_requested - 0.10) < 1e-9
    assert just_mine.budget_loaded is not None
    assert abs(just_mine.budget_loaded - 0.10) < 1e-9


def test_before_the_first_answer_there_are_no_means(storage: Storage, tenant: UUID) -> None:
    nothing = storage.answers.summary(tenant)
    assert (nothing.num_answers, nothing.hits, nothing.misses, nothing.saved_ms) == (0, 0, 0, 0.0)
    assert nothing.budget_loaded is None


def test_statistics_outlive_their_document(storage: Storage, upload: Upload) -> None:
    document = upload()
    answer(storage, document)
    storage.documents.delete(document.tenant_id, document.id)
    answer(storage, document)  # the answer that was on its way meanwhile
    assert storage.answers.summary().num_answers == 2


def test_rows_are_removed_in_time_and_sums_are_kept(storage: Storage, upload: Upload) -> None:
    document = upload()
    for _ in range(3):
        answer(storage, document)
    with storage.db.session() as session:
        old = storage.db.now(session) - timedelta(days=31)
        kept = session.scalars(select(Answer.id).limit(1)).one()
        session.execute(update(Answer).where(Answer.id != kept).values(created_at=old))
    assert storage.answers.prune(32) == 0
    before = storage.answers.summary(), storage.dashboard.documents(1)
    assert storage.answers.prune(30) == 2
    assert storage.answers.prune(30) == 0
    assert (storage.answers.summary(), storage.dashboard.documents(1)) == before
    assert before[0].num_answers == before[1][0].hits == 3


def test_the_dashboard_looks_at_no_answer(storage: Storage, upload: Upload) -> None:
    """Its queries take the same time however many answers there are."""
    document = upload()
    answer(storage, document)
    asked: list[str] = []
    with storage.db.reading() as session:
        engine = session.get_bind().engine

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        asked.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        storage.dashboard.totals()
        storage.dashboard.documents(100)
    finally:
        event.remove(engine, "before_cursor_execute", note)
    assert len(asked) >= 4
    assert not [statement for statement in asked if re.search(r"\banswers\b", statement)]


def test_answers_that_come_together_are_all_counted(storage: Storage, upload: Upload) -> None:
    document = upload()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: answer(storage, document), range(40)))
    assert storage.answers.summary().num_answers == 40
    assert storage.dashboard.documents(1)[0].hits == 40


def test_no_words_are_kept(storage: Storage) -> None:
    texts = {column.name for column in inspect(Answer).columns if str(column.type) == "TEXT"}
    assert texts == set()
