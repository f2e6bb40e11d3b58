"""The composition of storage: all of its parts, opened once by the process that uses them."""

from dataclasses import dataclass
from pathlib import Path
from typing import cast
from uuid import UUID

from common import plugins
from common.errors import DocumentNotFound
from common.status import DocumentStatus
from storage import blobs as blob_stores
from storage import notify as notifiers
from storage.answers import Answers
from storage.artifacts.store import Artifacts
from storage.blobs.base import Blobs
from storage.config import StorageConfig
from storage.dashboard import Dashboard
from storage.db.database import Database
from storage.documents import Documents
from storage.files import make_private_folder
from storage.jobs.jobs import Jobs
from storage.jobs.liveness import WorkerLiveness
from storage.keys import ApiKeys
from storage.notify.base import DocumentState, Notifier, NotifierConfig
from storage.reading_times import ReadingTimes
from storage.tenants import Tenants


@dataclass(frozen=True)
class Storage:
    """The parts of storage, which share one database."""

    db: Database
    tenants: Tenants
    keys: ApiKeys
    documents: Documents
    jobs: Jobs
    artifacts: Artifacts
    answers: Answers
    reading_times: ReadingTimes
    dashboard: Dashboard
    notifier: Notifier
    blobs: Blobs
    liveness: WorkerLiveness

    def close(self) -> None:
        """Close all connections."""
        self.notifier.close()
        self.db.close()


def open_storage(config: StorageConfig) -> Storage:
    """Make the folders, migrate the database, and put the parts together.

    Raises: DatabaseUnavailable, StorageFull; Permanent if the schema is newer than the program.
    """
    folder = config.data_dir.resolve()
    make_private_folder(folder)
    db = Database(config.sql_url())
    db.migrate()
    return assemble(db, folder, config.redis_url)


def assemble(db: Database, folder: Path, redis_url: str = "") -> Storage:
    """Put the parts of storage together.

    Args:
        db: a migrated database.
        folder: where originals, artifacts and the workers' lock files are.
        redis_url: URL of a Redis server for notifications; empty for polling.
    """
    blobs = cast(Blobs, plugins.build(blob_stores, "local", folder / "blobs"))
    artifacts = Artifacts(db, folder / "artifacts")
    documents = Documents(db, blobs, artifacts)
    jobs = Jobs(db)
    return Storage(
        db=db,
        tenants=Tenants(db),
        keys=ApiKeys(db),
        documents=documents,
        jobs=jobs,
        artifacts=artifacts,
        answers=Answers(db),
        reading_times=ReadingTimes(db),
        dashboard=Dashboard(db),
        notifier=_make_notifier(documents, jobs, redis_url),
        blobs=blobs,
        liveness=WorkerLiveness(folder / "workers"),
    )


def _make_notifier(documents: Documents, jobs: Jobs, redis_url: str) -> Notifier:
    config = NotifierConfig(
        read_state=lambda document_id: _read_state(documents, jobs, document_id), url=redis_url
    )
    return cast(Notifier, plugins.build(notifiers, "redis" if redis_url else "poll", config))


def _read_state(documents: Documents, jobs: Jobs, document_id: UUID) -> DocumentState | None:
    """Return a document's state; None if there is no such document."""
    try:
        document = documents.find(document_id)
    except DocumentNotFound:
        return None
    job = jobs.latest(document_id)
    has_failed = document.status is DocumentStatus.FAILED
    return DocumentState(
        status=document.status,
        phase=None if job is None else job.phase,
        tokens_done=0 if job is None else job.tokens_done,
        tokens_total=0 if job is None else job.tokens_total,
        error_code=document.error_code if has_failed else None,
        error_message=document.error_message if has_failed else None,
    )
