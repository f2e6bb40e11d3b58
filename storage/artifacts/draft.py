"""Publishing an artifact, in the one order that survives a kill or a power cut at any point.

write -> fsync files -> fsync folder -> rename -> fsync parent -> one fenced SQL transaction.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import UUID, uuid4

from blake3 import blake3
from sqlalchemy import delete

from common.errors import (
    Busy,
    Cancelled,
    DatabaseUnavailable,
    DocumentDeleted,
    InvalidInput,
    LeaseLost,
    Transient,
)
from common.versions import MANIFEST_FORMAT
from storage.db.database import Database
from storage.db.errors import disk_errors
from storage.db.records import ArtifactRecord, JobRecord, record
from storage.db.tables import Artifact
from storage.files import own_folder, sync_folder
from storage.jobs.fencing import IDLE, fenced, mark_ready

MANIFEST = "manifest.json"
DRAFT = ".draft"
FOLDER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.[0-9a-f]{32}")
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
OURS = frozenset({"format", "binding", "files"})
RETRIES_S = (0.2, 1.0, 3.0, 6.0)
NOT_MINE = (LeaseLost, Cancelled, DocumentDeleted)
STEPS = (
    "folder_made",
    "file_written",
    "file_synced",
    "manifest_written",
    "manifest_synced",
    "folder_synced",
    "renamed",
    "parent_synced",
    "job_fenced",
    "document_ready",
    "old_rows_deleted",
    "row_inserted",
    "committed",
    "old_folders_removed",
)


def no_failpoint(step: str) -> None:
    """Go on; what runs outside tests."""
    del step


class ArtifactDraft:
    """An artifact that nobody can see yet; made by `Artifacts.draft`."""

    def __init__(
        self,
        db: Database,
        root: Path,
        binding: Mapping[str, str],
        failpoint: Callable[[str], None],
    ) -> None:
        self.id = uuid4()
        self._db = db
        self._root = root
        self._binding = dict(binding)
        self._reached = failpoint
        self._files: dict[str, dict[str, Any]] = {}
        self._num_bytes = 0
        self._name = f"{binding['document_id']}.{self.id.hex}"
        self._path = root / (self._name + DRAFT)
        self._lock: int | None = None
        self._is_published = False

    def __enter__(self) -> Self:
        """Make the folder. Raises: StorageFull."""
        with disk_errors():
            self._path.mkdir()
        self._lock = own_folder(self._path)
        if self._lock is None:
            raise Transient("The folder of a new artifact was taken away.")
        self._reached("folder_made")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # After the rename, an error other than a lost job may hide a commit that went through:
        # then the folder is left to the collector, which looks for its row.
        is_draft = self._path.name.endswith(DRAFT)
        if is_draft or (not self._is_published and isinstance(error, NOT_MINE)):
            shutil.rmtree(self._path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Write one file, hashed as it is written, and sync it. Raises: StorageFull."""
        if NAME.fullmatch(name) is None or name == MANIFEST or name in self._files:
            raise InvalidInput(f"'{name}' cannot name a file of an artifact.")
        digest = self._write(name, data, "file")
        self._files[name] = {"blake3": digest, "num_bytes": memoryview(data).nbytes}

    def publish(
        self,
        job: JobRecord,
        manifest: Mapping[str, Any],
        *,
        kv_bytes: int,
        num_tokens: int,
        num_pages: int,
        reading_ms: float,
    ) -> ArtifactRecord:
        """Make the artifact visible, its job done and its document ready, all at once.

        Args:
            job: as claimed; its attempt fences the commit.
            manifest: the engine's description, JSON-like.
            kv_bytes: bytes of keys and values that full attention reads.
            reading_ms: what reading the document again would take.
        Raises: LeaseLost, Cancelled, DocumentDeleted: nothing is visible then; StorageFull;
            DatabaseUnavailable, Busy: the commit may have gone through, as the next claim finds.
        """
        if str(job.document_id) != self._binding["document_id"]:
            raise InvalidInput("A job can publish its own document alone.")
        manifest_hash = self._write_manifest(manifest)
        self._move()
        row = Artifact(
            id=self.id,
            document_id=UUID(self._binding["document_id"]),
            fingerprint=self._binding["fingerprint"],
            folder=self._name,
            num_bytes=self._num_bytes,
            kv_bytes=kv_bytes,
            manifest_hash=manifest_hash,
        )
        facts = {"num_tokens": num_tokens, "num_pages": num_pages, "reading_ms": reading_ms}
        replaced = self._commit(job, row, facts)
        self._is_published = True
        self._reached("committed")
        for folder in replaced:
            shutil.rmtree(self._root / folder, ignore_errors=True)
        self._reached("old_folders_removed")
        return record(ArtifactRecord, row, tenant_id=UUID(self._binding["tenant_id"]))

    def _write_manifest(self, manifest: Mapping[str, Any]) -> str:
        if OURS & manifest.keys():
            raise InvalidInput(f"A manifest may not bring its own {', '.join(sorted(OURS))}.")
        whole = {
            "format": MANIFEST_FORMAT,
            "binding": self._binding,
            "files": self._files,
            **manifest,
        }
        data = json.dumps(whole, indent=1, sort_keys=True, allow_nan=False).encode()
        return self._write(MANIFEST, data, "manifest")

    def _write(self, name: str, data: bytes | memoryview, step: str) -> str:
        with disk_errors(), (self._path / name).open("xb", buffering=0) as file:
            rest = memoryview(data).cast("B")
            while len(rest):
                rest = rest[file.write(rest) :]
            self._reached(f"{step}_written")
            os.fsync(file.fileno())
        self._reached(f"{step}_synced")
        self._num_bytes += memoryview(data).nbytes
        return blake3(data, max_threads=blake3.AUTO).hexdigest()

    def _move(self) -> None:
        with disk_errors():
            sync_folder(self._path)
            self._reached("folder_synced")
            self._path = self._path.rename(self._root / self._name)
            self._reached("renamed")
            sync_folder(self._root)
            self._reached("parent_synced")

    def _commit(self, job: JobRecord, row: Artifact, facts: Mapping[str, Any]) -> list[str]:
        """Commit, patiently: what was read for minutes is not dropped for a database's hiccup."""
        for wait_s in RETRIES_S:
            try:
                return self._try_commit(job, row, facts)
            except (DatabaseUnavailable, Busy):
                time.sleep(wait_s)
        return self._try_commit(job, row, facts)

    def _try_commit(self, job: JobRecord, row: Artifact, facts: Mapping[str, Any]) -> list[str]:
        """One transaction; returns the folders of the artifacts that this one replaces."""
        with self._db.session() as session:
            if session.get(Artifact, self.id) is not None:  # an earlier try got through after all
                return []
            row.created_at = self._db.now(session)
            fenced(session, job, status="done", finished_at=row.created_at, **IDLE)
            self._reached("job_fenced")
            mark_ready(session, row.document_id, row.created_at, **facts)
            self._reached("document_ready")
            old = delete(Artifact).where(Artifact.document_id == row.document_id)
            replaced = list(session.scalars(old.returning(Artifact.folder)))
            self._reached("old_rows_deleted")
            session.add(row)
            session.flush()
            self._reached("row_inserted")
            return replaced
