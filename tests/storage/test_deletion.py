"""What is deleted is gone: from the rows, the files, and the bytes of the database."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text, update

from common.errors import DocumentNotFound
from storage.config import StorageConfig
from storage.db import migrate
from storage.db.database import Database
from storage.db.dialects import sqlite
from storage.db.records import DocumentRecord
from storage.db.tables import Document
from storage.storage import Storage, open_storage
from storage.traces import contains_any
from tests.storage.publishing import publish
from workers.sweeper import Sweeper

Upload = Callable[..., DocumentRecord]
CANARY = "canary-heron"


@pytest.fixture
def sqlite_storage(tmp_path: Path) -> Iterator[Storage]:
    """Storage over SQLite in its data folder."""
    storage = open_storage(StorageConfig(tmp_path / "data"))
    yield storage
    storage.close()


def add(storage: Storage, folder: Path, owner: UUID, number: int) -> DocumentRecord:
    content = f"{CANARY} text {number}. ".encode() * 5
    path = folder / "upload"
    path.write_bytes(content)
    return storage.documents.add(
        owner,
        path,
        sha256=f"{number:064x}",
        filename=f"{CANARY} name {number}.txt",
        kind="txt",
        media_type="text/plain",
        num_bytes=len(content),
    )[0]


def record_answer(storage: Storage, document: DocumentRecord) -> None:
    storage.answers.record(
        tenant_id=document.tenant_id,
        document_id=document.id,
        cache_hit=True,
        budget_requested=0.1,
        budget_loaded=0.1,
        first_token_ms=1.0,
        total_ms=2.0,
        num_tokens=3,
        saved_ms=4.0,
    )


def test_nothing_is_left_of_deleted_documents_in_any_file(
    sqlite_storage: Storage, tmp_path: Path
) -> None:
    storage = sqlite_storage
    owner = storage.tenants.default()
    documents = [add(storage, tmp_path, owner, number) for number in range(30)]
    for document in documents[::5]:
        storage.jobs.claim("worker", 60)
        record_answer(storage, document)
    data_dir = storage.config.data_dir
    assert len(contains_any(data_dir, [CANARY.encode()])) > 30
    deleted = [document for document in documents if document is not documents[7]]
    for document in deleted:
        storage.documents.delete(owner, document.id)
    assert storage.db.erase_deleted()
    for document in deleted:
        assert list(storage.find_traces(document.id)) == []
        names = [f"{CANARY} name {int(document.sha256, 16)}.txt".encode()]
        assert contains_any(data_dir, names) == []
    kept = documents[7]
    assert {path.parent.name for path in contains_any(data_dir, [CANARY.encode()])} == {
        "data",
        "blobs",
    }
    assert [trace.place for trace in storage.find_traces(kept.id)], "what is there is found"


def test_traces_of_every_kind_are_found(storage: Storage, upload: Upload) -> None:
    document = upload()
    publish(storage, document)
    record_answer(storage, document)
    places = {trace.place.split("/")[0] for trace in storage.find_traces(document.id)}
    assert {"table documents", "table jobs", "table artifacts", "table answers"} <= places
    assert {"table document_answers", "artifacts"} <= places
    storage.documents.delete(document.tenant_id, document.id)
    storage.db.erase_deleted()
    assert list(storage.find_traces(document.id)) == []
    (storage.config.data_dir / "blobs" / uuid4().hex).write_bytes(b"an original without a row")
    (trace,) = storage.find_traces(document.id)
    assert trace.what == "an original that no document has"


def test_conversations_and_stored_answers_go_with_their_document(
    sqlite_storage: Storage, tmp_path: Path
) -> None:
    storage, data_dir = sqlite_storage, sqlite_storage.config.data_dir
    said = {name: f"{CANARY}-{name}" for name in ("question", "answer", "next", "stored")}
    crow = storage.tenants.create("crow")
    deleted, kept = (add(storage, tmp_path, crow, number) for number in range(2))
    first = storage.turns.add(crow, deleted.id, said["question"], said["answer"])
    storage.turns.add(crow, deleted.id, said["next"], "Nobody.", first)
    storage.stored_answers.add(crow, deleted.id, "0" * 64, f'{{"answer": "{said["stored"]}"}}')
    storage.stored_answers.add(crow, kept.id, "1" * 64, "{}")
    assert contains_any(data_dir, [one.encode() for one in said.values()])
    places = {trace.place for trace in storage.find_traces(deleted.id)}
    assert {"table conversation_turns", "table stored_answers"} <= places
    storage.documents.delete(crow, deleted.id)
    storage.db.erase_deleted()
    assert list(storage.find_traces(deleted.id)) == []
    assert contains_any(data_dir, [one.encode() for one in said.values()]) == []
    assert storage.stored_answers.find(crow, "1" * 64) == "{}"
    storage.turns.add(crow, None, said["question"], said["answer"])  # about no document
    storage.delete_tenant(crow)
    storage.db.erase_deleted()
    assert list(storage.find_traces(crow)) == []
    assert contains_any(data_dir, [one.encode() for one in said.values()]) == []


def test_a_damaged_cache_goes_with_its_document(storage: Storage, upload: Upload) -> None:
    document = upload()
    publish(storage, document)
    artifact = storage.artifacts.current(document.id)
    assert artifact is not None
    storage.artifacts.quarantine(artifact)
    storage.documents.delete(document.tenant_id, document.id)
    assert list((storage.config.data_dir / "artifacts").iterdir()) == []


def test_a_deleted_tenant_leaves_nothing(storage: Storage, upload: Upload) -> None:
    crow = storage.tenants.create("crow")
    _, key = storage.keys.create(crow, "laptop")
    document = upload(owner=crow)
    record_answer(storage, document)
    grant = storage.quotas.take_question(key, 5, 300)
    grant.end(5)
    storage.quotas.settle(grant)
    assert storage.delete_tenant(crow) == 1
    storage.db.erase_deleted()
    for deleted_id in (crow, key.id, document.id):
        assert list(storage.find_traces(deleted_id)) == []


def test_what_was_deleted_before_deletions_were_overwritten_is_overwritten_by_the_migration(
    tmp_path: Path,
) -> None:
    path = tmp_path / "old.sqlite3"
    db = Database(f"sqlite:///{path}")
    migrate.upgrade(sqlite.make_migration_engine(db._url), "0002")
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA secure_delete=OFF")
        for number in range(50):
            raw.execute(
                "INSERT INTO tenants (id, name, created_at) VALUES (?, ?, '2026-01-01')",
                (uuid4().hex, f"{CANARY} {number}"),
            )
        raw.commit()
        raw.execute("DELETE FROM tenants")
        raw.commit()
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert CANARY.encode() in path.read_bytes()
    db.migrate()
    assert CANARY.encode() not in path.read_bytes()
    db.close()


# -- documents with an end ---------------------------------------------------------------------


def expire(storage: Storage, document: DocumentRecord) -> None:
    """Let a document's time be over."""
    with storage.db.session() as session:
        past = storage.db.now(session) - timedelta(seconds=1)
        over = update(Document).where(Document.id == document.id)
        session.execute(over.values(expires_at=past))


def test_a_document_whose_time_is_over_is_deleted_by_the_sweeper(
    storage: Storage, upload: Upload
) -> None:
    over, kept = upload("Over."), upload("Kept.")
    storage.documents.set_expiry(kept.tenant_id, kept.id, 3600)
    expire(storage, over)
    Sweeper(storage, 3).sweep()
    with pytest.raises(DocumentNotFound):
        storage.documents.find(over.id)
    assert list(storage.find_traces(over.id)) == []
    assert storage.documents.find(kept.id).expires_at is not None


def test_a_tenants_default_holds_for_uploads_that_say_nothing(
    storage: Storage, tenant: UUID, tmp_path: Path
) -> None:
    storage.tenants.set_document_ttl(tenant, 86_400)
    document = add(storage, tmp_path, tenant, 1)
    assert document.expires_at is not None
    assert document.expires_at - document.created_at == timedelta(days=1)
    storage.documents.set_expiry(tenant, document.id, None)
    assert storage.documents.find(document.id).expires_at is None


def test_another_tenants_document_keeps_its_end(storage: Storage, upload: Upload) -> None:
    document = upload()
    with pytest.raises(DocumentNotFound):
        storage.documents.set_expiry(storage.tenants.create("other"), document.id, 60)
    assert storage.documents.find(document.id).expires_at is None


def test_every_connection_overwrites_what_it_deletes(sqlite_storage: Storage) -> None:
    with sqlite_storage.db.reading() as session:
        assert session.execute(text("PRAGMA secure_delete")).scalar_one() == 1
