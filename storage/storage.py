"""Everything stored, opened once by the composition root."""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from common import plugins
from storage import blobs as blob_stores
from storage.answers import Answers
from storage.artifacts.store import Artifacts
from storage.blobs.base import Blobs
from storage.config import StorageConfig
from storage.dashboard import Dashboard
from storage.db.database import Database
from storage.documents import Documents
from storage.jobs.jobs import Jobs
from storage.jobs.liveness import Presence
from storage.keys import ApiKeys
from storage.notifier import make_bell
from storage.notify.base import Bell
from storage.tenants import Tenants


@dataclass(frozen=True)
class Storage:
    """The parts of storage; they share one database."""

    db: Database
    tenants: Tenants
    keys: ApiKeys
    documents: Documents
    jobs: Jobs
    artifacts: Artifacts
    answers: Answers
    dashboard: Dashboard
    bell: Bell
    blobs: Blobs
    presence: Presence

    def close(self) -> None:
        """Give up all connections."""
        self.bell.close()
        self.db.close()


def open_storage(config: StorageConfig) -> Storage:
    """Make the folders, bring the schema up to date, and put the parts together.

    Raises: DatabaseUnavailable, StorageFull, Permanent if the schema is newer than the program.
    """
    folder = config.data_dir.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    db = Database(config.sql_url())
    db.migrate()
    return assemble(db, folder, config.redis_url)


def assemble(db: Database, folder: Path, redis_url: str = "") -> Storage:
    """Put the parts together over a migrated database and a folder for bytes."""
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
        dashboard=Dashboard(db),
        bell=make_bell(documents, jobs, redis_url),
        blobs=blobs,
        presence=Presence(folder / "workers"),
    )
