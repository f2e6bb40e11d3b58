"""The composition of storage: all of its parts, opened once by the process that uses them."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import cast
from uuid import UUID

from common import plugins
from common.errors import DocumentNotFound, LecternError
from common.status import DocumentStatus
from storage import blobs as blob_stores
from storage import notify as notifiers
from storage.answer_history import AnswerHistory
from storage.answers import Answers
from storage.artifacts.draft import no_confirm
from storage.artifacts.space import ArtifactSpace
from storage.artifacts.store import Artifacts
from storage.blobs.base import Blobs
from storage.browser_sessions import BrowserSessions
from storage.config import SQLITE_FILE, StorageConfig
from storage.dashboard import Dashboard
from storage.db.database import Database
from storage.documents import Documents
from storage.files import make_private_folder
from storage.jobs.jobs import Jobs
from storage.jobs.liveness import WorkerLiveness
from storage.keys import ApiKeys, admitted
from storage.notify.base import DocumentState, Notifier, NotifierConfig
from storage.processes import Processes
from storage.quotas.quotas import Quotas
from storage.readable import ReadableDocuments
from storage.reading_times import ReadingTimes
from storage.stored_answers import StoredAnswers
from storage.tenants import Tenants
from storage.traces import Trace, find_traces
from storage.turns import Turns

DELETED_AT_ONCE = 100


@dataclass(frozen=True)
class Storage:
    """The parts of storage, which share one database.

    Attributes:
        config: where files and rows are.
        fingerprint: names the model and settings whose artifacts are current; empty for any.
        readable: documents that this process can be asked about before they are stored.
        process: name of this process among all of them, different at every start.
    """

    config: StorageConfig
    fingerprint: str
    process: str
    db: Database
    quotas: Quotas
    tenants: Tenants
    keys: ApiKeys
    browser_sessions: BrowserSessions
    documents: Documents
    readable: ReadableDocuments
    jobs: Jobs
    artifacts: Artifacts
    space: ArtifactSpace
    answers: Answers
    answer_history: AnswerHistory
    turns: Turns
    stored_answers: StoredAnswers
    reading_times: ReadingTimes
    dashboard: Dashboard
    processes: Processes
    notifier: Notifier
    blobs: Blobs
    liveness: WorkerLiveness

    def of(self, fingerprint: str, confirm: Callable[[], None] = no_confirm) -> "Storage":
        """Return the same storage as a process sees it that has a certain model and settings.

        Args:
            fingerprint: from `precompute.fingerprint.artifact_fingerprint`.
            confirm: called before an artifact is published; raises if the fingerprint is wrong.
        """
        artifacts = self.artifacts.of(fingerprint, confirm)
        return replace(
            self,
            fingerprint=fingerprint,
            artifacts=artifacts,
            documents=Documents(self.db, self.blobs, artifacts, fingerprint, self.readable),
            jobs=self.jobs.of(fingerprint),
            space=_space(self.db, self.config, fingerprint),
            dashboard=Dashboard(self.db, fingerprint),
        )

    def watch(
        self, document_id: UUID, is_stopped: Callable[[], bool] = lambda: False
    ) -> Iterator[DocumentState]:
        """Yield a document's state, and again whenever it has changed; see `Notifier.watch`."""
        return self.notifier.watch(document_id, lambda: self.read_state(document_id), is_stopped)

    def read_state(self, document_id: UUID) -> DocumentState | None:
        """Return a document's state; None if there is no such document."""
        try:
            document = self.documents.find(document_id)
        except DocumentNotFound:
            return None
        job = self.jobs.latest(document_id)
        has_failed = document.status is DocumentStatus.FAILED
        return DocumentState(
            status=document.status,
            phase=None if job is None else job.phase,
            tokens_done=0 if job is None else job.tokens_done,
            tokens_total=0 if job is None else job.tokens_total,
            error_code=document.error_code if has_failed else None,
            error_message=document.error_message if has_failed else None,
        )

    def delete_tenant(self, tenant_id: UUID) -> int:
        """Delete a tenant with its keys, documents and all that was made of them.

        It is suspended first, so that nothing is added meanwhile. Called again, it goes on where
        it was interrupted.

        Returns: how many documents were deleted.
        """
        self.tenants.suspend(tenant_id)
        num_deleted = 0
        while documents := self.documents.list(tenant_id, DELETED_AT_ONCE):
            for document in documents:
                with suppress(DocumentNotFound):  # somebody else deletes it, too
                    self.documents.delete(tenant_id, document.id)
                    num_deleted += 1
        self.tenants.remove(tenant_id)
        self.db.erase_deleted()
        return num_deleted

    def find_traces(self, deleted_id: UUID) -> Iterator[Trace]:
        """Yield all that is left of a deleted document or tenant; see `storage.traces`."""
        data_dir = self.config.data_dir.resolve()
        return find_traces(self.db, data_dir, self.blobs, self.artifacts, deleted_id)

    def close(self) -> None:
        """Close all connections."""
        self.notifier.close()
        self.quotas.close()
        self.db.close()


def open_storage(config: StorageConfig) -> Storage:
    """Make the folders, migrate the database, and put the parts together.

    Raises: DatabaseUnavailable, StorageFull; Permanent if the schema is newer than the program.
    """
    folder = config.data_dir.resolve()
    make_private_folder(folder)
    db = Database(config.sql_url())
    db.migrate()
    return assemble(db, config)


def open_existing(config: StorageConfig) -> Storage | None:
    """Put the parts together without making anything, for somebody who only looks.

    Returns: None if there is no database yet, or nothing in it.
    Raises: DatabaseUnavailable; Permanent if the schema is of another version.
    """
    if not config.database_url and not (config.data_dir / SQLITE_FILE).is_file():
        return None
    db = Database(config.sql_url())
    try:
        if not db.has_schema():
            db.close()
            return None
    except LecternError:
        db.close()
        raise
    return assemble(db, config)


def assemble(db: Database, config: StorageConfig) -> Storage:
    """Put the parts of storage together.

    Args:
        db: a migrated database.
        config: where originals, artifacts and the workers' lock files are.
    """
    folder = config.data_dir.resolve()
    blobs = cast(Blobs, plugins.build(blob_stores, "local", folder / "blobs"))
    artifacts, readable = Artifacts(db, folder / "artifacts"), ReadableDocuments()
    notifier_config = NotifierConfig(url=config.redis_url)
    liveness = WorkerLiveness(folder / "workers")
    process = liveness.new_owner()
    notifier = plugins.build(notifiers, "redis" if config.redis_url else "poll", notifier_config)
    return Storage(
        config=config,
        fingerprint="",
        process=process,
        db=db,
        quotas=Quotas(db, config.redis_url, process),
        tenants=Tenants(db),
        keys=ApiKeys(db),
        browser_sessions=BrowserSessions(db, admitted),
        documents=Documents(db, blobs, artifacts, readable=readable),
        readable=readable,
        jobs=Jobs(db),
        artifacts=artifacts,
        space=_space(db, config, ""),
        answers=Answers(db),
        answer_history=AnswerHistory(db),
        turns=Turns(db, 3600 * config.conversation_hours),
        stored_answers=StoredAnswers(db, 3600 * config.stored_answer_hours),
        reading_times=ReadingTimes(db),
        dashboard=Dashboard(db),
        processes=Processes(db),
        notifier=cast(Notifier, notifier),
        blobs=blobs,
        liveness=liveness,
    )


def _space(db: Database, config: StorageConfig, fingerprint: str) -> ArtifactSpace:
    folder = config.data_dir.resolve() / "artifacts"
    return ArtifactSpace(db, folder, fingerprint, config.stored_cache_bytes)
