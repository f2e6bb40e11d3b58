"""Publish an artifact, in the one order of steps that survives a power cut at any point.

write -> fsync files -> fsync folder -> rename -> fsync parent -> one fenced SQL transaction.
"""

import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import UUID, uuid4

from blake3 import blake3
from sqlalchemy import delete

from common.errors import (
    Busy,
    DatabaseUnavailable,
    InvalidInput,
    Transient,
)
from common.status import JobStatus
from common.versions import MANIFEST_FORMAT
from storage.db.database import Database
from storage.db.records import ArtifactRecord, JobRecord, record
from storage.db.tables import Artifact
from storage.files import disk_errors, lock_folder, sync_folder
from storage.jobs.transitions import JOB_LOST_ERRORS, NO_LEASE, mark_ready, update_claimed_job

MANIFEST = "manifest.json"
DRAFT_SUFFIX = ".draft"
FOLDER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.[0-9a-f]{32}")
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
RESERVED_FIELDS = frozenset({"format", "binding", "files"})
PART_BYTES = 32 * 1024 * 1024  # of a file, written at a time
MAKE_TRIES, MAKE_WAIT_S = 10, 0.01
COMMIT_RETRIES_S = (0.2, 1.0, 3.0, 6.0)
STEPS = (  # names of the steps, which failpoints are told
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


def no_check() -> None:
    """Do nothing; the check of a write that nobody stops."""


def no_confirm() -> None:
    """Do nothing; the confirmation of a fingerprint that is certain."""


def no_failpoint(step: str) -> None:
    """Do nothing; the failpoint outside tests."""
    del step


class ArtifactDraft:
    """An artifact that is not visible yet: a context manager, made by `Artifacts.draft`."""

    def __init__(
        self,
        db: Database,
        root: Path,
        binding: Mapping[str, str],
        failpoint: Callable[[str], None],
        confirm: Callable[[], None] = no_confirm,
    ) -> None:
        self.id = uuid4()
        self._db = db
        self._root = root
        self._binding = dict(binding)
        self._failpoint = failpoint
        self._confirm = confirm
        self._files: dict[str, dict[str, Any]] = {}
        self._num_bytes = 0
        self._naming = threading.Lock()
        self._name = f"{binding['document_id']}.{self.id.hex}"
        self._path = root / (self._name + DRAFT_SUFFIX)
        self._lock: int | None = None
        self._is_published = False

    def __enter__(self) -> Self:
        """Make the folder. Raises: StorageFull, Transient."""
        self._lock = self._make_folder()
        self._failpoint("folder_made")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # After the rename, the commit may have succeeded even though an error was raised, unless
        # the error says that the job was lost. Then garbage collection decides about the folder,
        # because it looks for the artifact's row.
        is_draft = self._path.name.endswith(DRAFT_SUFFIX)
        if is_draft or (not self._is_published and isinstance(error, JOB_LOST_ERRORS)):
            shutil.rmtree(self._path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)

    def _make_folder(self) -> int:
        """Make the folder and lock it; a collection may take it for garbage before it is locked."""
        for _ in range(MAKE_TRIES):
            with disk_errors():
                self._root.mkdir(parents=True, exist_ok=True)
                self._path.mkdir(exist_ok=True)
            lock = lock_folder(self._path)
            if lock is not None:
                return lock
            time.sleep(MAKE_WAIT_S)
        raise Transient("The folder of a new artifact was removed by another process.")

    def write(
        self,
        name: str,
        data: bytes | memoryview | Iterable[bytes | memoryview],
        check: Callable[[], object] = no_check,
    ) -> None:
        """Write one file, sync it to the disk and remember its hash.

        Several threads may write files at the same time.

        Args:
            name: lower-case letters, digits, dots, dashes and underscores; no path.
            data: the file's bytes, or pieces of them, each of which is used before the next.
            check: called before each part of a large file is written; may raise to stop.
        Raises: StorageFull; InvalidInput if the name is not allowed or was used before.
        """
        with self._naming:
            if NAME.fullmatch(name) is None or name == MANIFEST or name in self._files:
                raise InvalidInput(f"'{name}' cannot be the name of a file in an artifact.")
            self._files[name] = {}
        pieces = (data,) if isinstance(data, bytes | memoryview) else data
        digest, num_bytes = self._write(name, pieces, "file", check)
        self._files[name] = {"blake3": digest, "num_bytes": num_bytes}

    def publish(
        self,
        job: JobRecord,
        manifest: Mapping[str, Any],
        *,
        kv_bytes: int,
        num_tokens: int,
        num_pages: int,
        reading_ms: float,
        phases_ms: Mapping[str, float] | None = None,
        warnings: Mapping[str, str] | None = None,
    ) -> ArtifactRecord:
        """Make the artifact visible, its job done and its document ready, in one transaction.

        Args:
            job: the job as it was claimed; its attempt is the fencing token.
            manifest: the engine's description of the files, made of JSON values.
            kv_bytes: bytes of keys and values that full attention reads for each token.
            num_tokens, num_pages: of the document's text.
            reading_ms: milliseconds that reading the document again would take.
            phases_ms: milliseconds of each phase of this reading, by name; None if not known.
            warnings: by code, what could not be taken from the file.
        Raises: LeaseLost, JobCancelled, DocumentDeleted: then nothing is visible; StorageFull;
            what `confirm` raises, if the fingerprint is wrong;
            DatabaseUnavailable, Busy: then the commit may have succeeded, which the next worker
            that claims the job finds out.
        """
        if str(job.document_id) != self._binding["document_id"]:
            raise InvalidInput("A job can only publish an artifact of its own document.")
        self._confirm()
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
            num_tokens=num_tokens,
            num_pages=num_pages,
            reading_ms=reading_ms,
            phases_ms=phases_ms,
        )
        facts = {
            "num_tokens": num_tokens,
            "num_pages": num_pages,
            "reading_ms": reading_ms,
            "phases_ms": phases_ms,
            "reading_warnings": warnings,
        }
        replaced = self._commit(job, row, facts)
        self._is_published = True
        self._failpoint("committed")
        for folder in replaced:
            shutil.rmtree(self._root / folder, ignore_errors=True)
        self._failpoint("old_folders_removed")
        return record(ArtifactRecord, row, tenant_id=UUID(self._binding["tenant_id"]))

    def _write_manifest(self, manifest: Mapping[str, Any]) -> str:
        if RESERVED_FIELDS & manifest.keys():
            raise InvalidInput(f"A manifest may not contain {', '.join(sorted(RESERVED_FIELDS))}.")
        fields = {
            "format": MANIFEST_FORMAT,
            "binding": self._binding,
            "files": self._files,
            **manifest,
        }
        data = json.dumps(fields, indent=1, sort_keys=True, allow_nan=False).encode()
        return self._write(MANIFEST, (data,), "manifest")[0]

    def _write(
        self,
        name: str,
        pieces: Iterable[bytes | memoryview],
        step: str,
        check: Callable[[], object] = no_check,
    ) -> tuple[str, int]:
        """Write and sync a file; return its hash and its size."""
        hasher, num_bytes = blake3(max_threads=blake3.AUTO), 0
        with disk_errors(), (self._path / name).open("xb", buffering=0) as file:
            for piece in pieces:
                unwritten = memoryview(piece).cast("B")
                num_bytes += len(unwritten)
                while len(unwritten):
                    check()
                    part = unwritten[: file.write(unwritten[:PART_BYTES])]
                    hasher.update(part)
                    unwritten = unwritten[len(part) :]
            self._failpoint(f"{step}_written")
            os.fsync(file.fileno())
        self._failpoint(f"{step}_synced")
        with self._naming:
            self._num_bytes += num_bytes
        return hasher.hexdigest(), num_bytes

    def _move(self) -> None:
        with disk_errors():
            sync_folder(self._path)
            self._failpoint("folder_synced")
            self._path = self._path.rename(self._root / self._name)
            self._failpoint("renamed")
            sync_folder(self._root)
            self._failpoint("parent_synced")

    def _commit(self, job: JobRecord, row: Artifact, facts: Mapping[str, Any]) -> list[str]:
        """Commit, and try again after a fault: reading the document may have taken minutes."""
        for wait_s in COMMIT_RETRIES_S:
            try:
                return self._try_commit(job, row, facts)
            except (DatabaseUnavailable, Busy):
                time.sleep(wait_s)
        return self._try_commit(job, row, facts)

    def _try_commit(self, job: JobRecord, row: Artifact, facts: Mapping[str, Any]) -> list[str]:
        """Run the transaction; return the folders of the artifacts that this one replaces.

        Artifacts of other fingerprints stay: other processes may answer from them.
        """
        with self._db.session() as session:
            if session.get(Artifact, self.id) is not None:  # an earlier try succeeded after all
                return []
            row.created_at = row.used_at = self._db.now(session)
            done = {"status": JobStatus.DONE, "finished_at": row.created_at}
            tokens = {"tokens_done": row.num_tokens, "tokens_total": row.num_tokens}
            update_claimed_job(session, job, **done, **tokens, **NO_LEASE)
            self._failpoint("job_fenced")
            mark_ready(session, row.document_id, row.created_at, **facts)
            self._failpoint("document_ready")
            older = delete(Artifact).where(
                Artifact.document_id == row.document_id, Artifact.fingerprint == row.fingerprint
            )
            replaced = list(session.scalars(older.returning(Artifact.folder)))
            self._failpoint("old_rows_deleted")
            session.add(row)
            session.flush()
            self._failpoint("row_inserted")
            return replaced
