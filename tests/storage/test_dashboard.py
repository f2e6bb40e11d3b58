"""The queries of the dashboard: queue, documents and totals."""

from storage.storage import Storage
from tests.storage.conftest import Upload
from tests.storage.publishing import FACTS, claim, publish
from tests.storage.test_answers import answer


def test_the_dashboard_shows_queue_documents_and_totals(storage: Storage, upload: Upload) -> None:
    ready = upload("Ready.", filename="ready.txt")
    artifact = publish(storage, ready)
    answer(storage, ready, cache_hit=False)
    answer(storage, ready, budget_loaded=0.16)
    upload("Broken.", filename="broken.txt")
    storage.jobs.fail(claim(storage), "empty_document", "No text.")
    upload("Running.", filename="running.txt")
    storage.jobs.progress(claim(storage), "prefill", 3, 9)
    upload("Waiting.", filename="waiting.txt")

    queue = storage.dashboard.queue(10)
    assert [(row.filename, row.status, row.phase) for row in queue] == [
        ("running.txt", "reading", "prefill"),
        ("waiting.txt", "queued", None),
    ]
    assert (queue[0].tokens_done, queue[0].tokens_total, queue[0].attempt) == (3, 9, 1)

    rows = {row.filename: row for row in storage.dashboard.documents(10)}
    assert list(rows) == ["waiting.txt", "running.txt", "broken.txt", "ready.txt"]
    shown = rows["ready.txt"]
    assert (shown.hits, shown.misses, shown.saved_ms) == (1, 1, 2000.0)
    assert shown.stored_bytes == artifact.num_bytes
    assert shown.kv_bytes == FACTS["kv_bytes"]
    assert shown.budget_loaded is not None
    assert abs(shown.budget_loaded - 0.15) < 1e-9
    assert (rows["waiting.txt"].hits, rows["waiting.txt"].budget_loaded) == (0, None)
    assert rows["broken.txt"].error_code == "empty_document"
    assert len(storage.dashboard.documents(2)) == 2

    totals = storage.dashboard.totals()
    counts = (totals.queued, totals.reading, totals.ready, totals.failed, totals.rebuilding)
    assert counts == (1, 1, 1, 1, 0)
    assert totals.stored_bytes == artifact.num_bytes
    assert totals.answers.num_answers == 2
