"""A worker: claims a job, reads its document, publishes the artifact."""

import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import structlog

from common.errors import (
    DocumentNotFound,
    DocumentTooLargeForGpu,
    GpuBusy,
    InvalidInput,
    LecternError,
    Permanent,
    ShuttingDown,
    Transient,
)
from storage.db.records import JobRecord
from storage.storage import Storage
from workers.artifact_builder import ArtifactBuilder
from workers.config import WorkerConfig
from workers.heartbeat import NOT_MINE, Heartbeat
from workers.progress_report import ProgressReport
from workers.sweeper import Sweeper

UNEXPECTED = (
    "Reading this document failed for a reason that is not the document's own. The operator "
    "finds the details in the worker's log; upload it again for another try."
)
TOO_LARGE = (
    "Reading this document took more memory than the GPU had, however often it was tried. Use a "
    "GPU with more memory, smaller chunks or a smaller model; upload it again for another try."
)
LONGEST_DELAY_S = 15.0
SETTLE_S = (0.5, 1.0, 2.0, 4.0, 8.0)


class Worker:
    """Reads one document at a time.

    Args:
        builder: turns a file into an artifact's files.
        settings: leases, polling and how often a job may crash.
    """

    def __init__(self, storage: Storage, builder: ArtifactBuilder, settings: WorkerConfig) -> None:
        self._storage = storage
        self._builder = builder
        self._settings = settings
        self._owner = storage.presence.new_owner()
        self._stop = threading.Event()

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set; a document that is being read then goes back to the queue.

        Raises: what keeps the model from being loaded. Nothing else ends it.
        """
        self._stop = stop
        sweeper = Sweeper(self._storage, self._builder.fingerprint, self._settings.max_attempts)
        sweeping = threading.Thread(target=sweeper.run, args=(stop,), name="sweeper", daemon=True)
        with self._storage.presence.stay(self._owner):
            sweeping.start()
            while not stop.is_set():
                if not self._next():
                    self._storage.bell.wait(self._settings.poll_s)
            sweeping.join()

    def run_once(self) -> bool:
        """Claim a job and see it through; whether there was one.

        Raises: Transient if the queue cannot be looked at; what the model's loading raises.
        """
        fingerprint = self._builder.fingerprint
        job = self._storage.jobs.claim(self._owner, self._settings.lease_s)
        if job is None:
            return False
        self._see_through(job, fingerprint)
        return True

    def _next(self) -> bool:
        try:
            return self.run_once()
        except Transient as error:
            self._log().warning("queue not reached", reason=error.code)
        except Exception as error:
            self._log().error("claim failed", **_described(error))
        return False

    def _see_through(self, job: JobRecord, fingerprint: str) -> None:
        log = self._log(job)
        try:
            with Heartbeat(lambda: self._beat(job), self._settings.heartbeat_s) as heartbeat:
                self._read(job, fingerprint, heartbeat)
        except (*NOT_MINE, DocumentNotFound) as error:
            log.info("stopped reading", reason=error.code)
        except ShuttingDown:
            self._settle(job, lambda: self._storage.jobs.release(job))
        except GpuBusy as error:  # who else uses the GPU may leave it, but not for ever
            log.warning("no memory left", reason=error.code)
            self._retry_or_fail(job, DocumentTooLargeForGpu.code, TOO_LARGE)
        except Transient as error:
            log.warning("will try again", reason=error.code)
            self._settle(job, lambda: self._storage.jobs.release(job, delay_s=_delay_s(job)))
        except (InvalidInput, Permanent) as error:
            self._fail(job, error.code, error.message)
        except Exception as error:
            log.error("reading failed", **_described(error))
            self._retry_or_fail(job, LecternError.code, UNEXPECTED)

    def _read(self, job: JobRecord, fingerprint: str, heartbeat: Heartbeat) -> None:
        storage = self._storage
        document = storage.documents.find(job.document_id)
        artifact = storage.artifacts.current(document.id)
        if artifact is not None and artifact.fingerprint == fingerprint:
            storage.jobs.finish(job)  # nothing is read twice
            self._tell_end(job)
            return
        report = ProgressReport(storage, job, heartbeat, self._stop)
        path = storage.blobs.path(document.blob_key)
        reading = self._builder.build(path, document.kind, report)
        with storage.artifacts.draft(document.id, fingerprint) as draft:
            for name, data in reading.files:
                report("pack", 0, reading.num_tokens)
                draft.write(name, data)
            draft.publish(
                job,
                reading.manifest,
                kv_bytes=reading.kv_bytes,
                num_tokens=reading.num_tokens,
                num_pages=reading.num_pages,
                reading_ms=report.prefill_ms,
            )
        self._log(job).info("ready", num_tokens=reading.num_tokens)
        self._tell_end(job)

    def _beat(self, job: JobRecord) -> None:
        self._storage.jobs.heartbeat(job, self._settings.lease_s)

    def _retry_or_fail(self, job: JobRecord, code: str, message: str) -> None:
        if job.crashes + 1 >= self._settings.max_attempts:
            self._fail(job, code, message)
            return
        delay_s = _delay_s(job)
        self._settle(job, lambda: self._storage.jobs.release(job, delay_s=delay_s, crashed=True))

    def _fail(self, job: JobRecord, code: str, message: str) -> None:
        self._log(job).info("failed", code=code)
        self._settle(job, lambda: self._storage.jobs.fail(job, code, message))
        self._tell_end(job)

    def _settle(self, job: JobRecord, write: Callable[[], None]) -> None:
        """Write how a job ended; if the database stays away, its lease ends by itself."""
        for wait_s in SETTLE_S:
            try:
                write()
                return
            except NOT_MINE as error:
                self._log(job).info("job was taken over", reason=error.code)
                return
            except Transient as error:
                self._log(job).warning("outcome not written yet", reason=error.code)
                time.sleep(wait_s)

    def _tell_end(self, job: JobRecord) -> None:
        self._storage.bell.publish(job.document_id, {"phase": "end"})

    def _log(self, job: JobRecord | None = None) -> Any:
        log = structlog.get_logger("lectern.worker").bind(owner=self._owner)
        if job is None:
            return log
        return log.bind(
            job_id=str(job.id), document_id=str(job.document_id), attempt=job.attempt
        )  # fmt: skip


def _delay_s(job: JobRecord) -> float:
    """Seconds until the next try: two, four, eight, …"""
    return min(LONGEST_DELAY_S, 2.0 ** min(job.attempt, 10))


def _described(error: BaseException) -> dict[str, str]:
    """Where an error comes from, without its message, which may quote the document."""
    kinds = []
    cause: BaseException | None = error
    while cause is not None:
        kinds.append(type(cause).__name__)
        cause = cause.__cause__ or cause.__context__
    return {
        "error": " from ".join(kinds),
        "trace": "".join(traceback.format_tb(error.__traceback__)),
    }
