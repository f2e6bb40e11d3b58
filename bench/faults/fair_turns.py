"""A tenant with one document and one question beside another with 200 documents and 200 questions.

The other tenant asks with 50 keys, so that it is tenants that must take turns, not keys.

python -m bench.faults.fair_turns
"""

import json
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import func, select

from bench.faults.program import program
from bench.faults.server import BOUNDARY, Caller, Server, serving, weights_of
from storage.config import StorageConfig
from storage.db.records import JobRecord
from storage.db.tables import Job
from storage.storage import Storage, open_storage
from training.record import circumstances, percentiles

DOCUMENTS, QUESTIONS, PROBES, CALLERS, KEYS = 200, 200, 12, 32, 50
TEXT = "The gate of the east wing closes at 18:40. Room 7 holds 49 chairs. " * 40
QUESTION = "When does the gate of the east wing close?"
assert BOUNDARY not in TEXT


def measure(options: Any) -> dict[str, Any]:
    """Ask alone first, then while another tenant keeps the server busy."""
    num_documents = 20 if options.smoke else DOCUMENTS
    num_questions = 20 if options.smoke else QUESTIONS
    with serving(options.model) as server:
        storage = open_storage(StorageConfig(server.folder / "data"))
        busy = storage.tenants.create("many")
        theirs_keys = [storage.keys.create(busy, f"{number}")[0] for number in range(KEYS)]
        key, _ = storage.keys.create(storage.tenants.create("few"), "few")
        many, few = server.caller(theirs_keys[0]), server.caller(key)
        ready = few.upload_patiently("ready.txt", TEXT.encode()).json()["id"]
        theirs = many.upload_patiently("ready.txt", TEXT.encode()).json()["id"]
        for caller, its_key, document_id in ((few, key, ready), (many, theirs_keys[0], theirs)):
            caller.wait_until_read(document_id)
            _first_token_ms(server, its_key, document_id)
        alone = [_first_token_ms(server, key, ready) for _ in range(PROBES)]
        begun_before = _upload_beside(storage, many, few, num_documents)
        asked = _Asked(theirs, theirs_keys, num_questions)
        together = _ask_beside(server, asked, key, ready)
        storage.close()
    return {
        "benchmark": "one document and one question beside another tenant's many",
        **circumstances("cpu", weights_of(options.model)),
        "documents": num_documents,
        "questions": num_questions,
        "begun_before": begun_before,
        "first_token_alone_ms": percentiles(alone),
        "first_token_beside_ms": percentiles(together),
        "ratio": percentiles(together)["p50"] / percentiles(alone)["p50"],
    }


def _upload_beside(storage: Storage, many: Caller, few: Caller, num_documents: int) -> int:
    """Return how many of one tenant's documents are begun after another's upload and before it."""
    for number in range(num_documents):
        many.upload_patiently(f"{number}.txt", f"{TEXT}{number}".encode())
    mine = UUID(few.upload_patiently("mine.txt", f"{TEXT}mine".encode()).json()["id"])
    while (job := _job_of(storage, mine)).started_at is None:
        time.sleep(0.05)
    between = Job.started_at.between(job.created_at, job.started_at)
    others = select(func.count()).where(Job.document_id != mine, between)
    with storage.db.reading() as session:
        return session.scalar(others) or 0


def _job_of(storage: Storage, document_id: UUID) -> JobRecord:
    job = storage.jobs.latest(document_id)
    assert job is not None
    return job


@dataclass(frozen=True)
class _Asked:
    """What the busy tenant asks: so many questions about a document, with its keys in turn."""

    document_id: str
    keys: list[str]
    num_questions: int


def _ask_beside(server: Server, asked: _Asked, key: str, document_id: str) -> list[float]:
    """Return the milliseconds to first tokens while the other tenant's questions are under way."""
    numbers, lock = iter(range(asked.num_questions)), threading.Lock()
    samples: list[float] = []

    def ask_all() -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            with closing(server.caller(asked.keys[number % len(asked.keys)])) as caller:
                while (reply := caller.ask(asked.document_id, QUESTION)).status in (429, 503):
                    time.sleep(float(reply.headers.get("retry-after", "1")))

    threads = [threading.Thread(target=ask_all, daemon=True) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    while any(thread.is_alive() for thread in threads) and len(samples) < PROBES:
        samples.append(_first_token_ms(server, key, document_id))
    for thread in threads:
        thread.join()
    return samples


def _first_token_ms(server: Server, key: str, document_id: str) -> float:
    """Ask, again after a refusal, and return the milliseconds to the first piece."""
    body = json.dumps({"question": QUESTION, "max_tokens": 8, "stream": True}).encode()
    started_s = time.perf_counter()
    with closing(server.caller(key)) as caller:
        while True:
            status, retry_s = caller.stream_until(
                "POST", f"/documents/{document_id}/ask", body, b"event: piece"
            )
            if status == 200:
                return 1000 * (time.perf_counter() - started_s)
            time.sleep(retry_s)


main = program("faults_fair_turns", __doc__, measure)


if __name__ == "__main__":
    main()
