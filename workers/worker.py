"""A worker: it claims a job, reads the job's document and publishes the artifact."""

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
from common.status import Phase
from storage.db.records import JobRecord
from storage.jobs.transitions import JOB_LOST_ERRORS
from storage.storage import Storage
from workers.artifact_builder import ArtifactBuilder
from workers.config import WorkerConfig
from workers.heartbeat import Heartbeat
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
OUTCOME_RETRIES_S = (0.5, 1.0, 2.0, 4.0, 8.0)


class Worker:
    """Reads one document at a time.

    Args:
        builder: makes an artifact's files of an uploaded file.
        config: leases, polling, and how often a job may crash.
    """

    def __init__(self, storage: Storage, builder: ArtifactBuilder, config: WorkerConfig) -> None:
        self._storage = storage
        self._builder = builder
        self._config = config
        self._owner = storage.liveness.new_owner()
        self._stop = threading.Event()

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set; a document that is being read then goes back to the queue.

        Raises: what keeps the model from being loaded; no other error ends the worker.
        """
        self._stop = stop
        sweeper = Sweeper(self._storage, self._builder.fingerprint, self._config.max_attempts)
        sweeping = threading.Thread(target=sweeper.run, args=(stop,), name="sweeper", daemon=True)
        with self._storage.liveness.hold(self._owner):
            sweeping.start()
            while not stop.is_set():
                if not self._try_run_once():
                    self._storage.notifier.wait_for_job(self._config.poll_s)
            sweeping.join()

    def run_once(self) -> bool:
        """Claim a job and do it; return whether there was one.

        Raises: Transient if the queue cannot be read; what keeps the model from being loaded.
        """
        fingerprint = self._builder.fingerprint
        job = self._storage.jobs.claim(self._owner, self._config.lease_s)
        if job is None:
            return False
        self._run_job(job, fingerprint)
        return True

    def _try_run_once(self) -> bool:
        try:
            return self.run_once()
        except Transient as error:
            self._log().warning("queue cannot be read", reason=error.code)
        except Exception as error:
            self._log().error("job not claimed", **_describe(error))
        return False

    def _run_job(self, job: JobRecord, fingerprint: str) -> None:
        """Do a job, and write how it ended, whatever happens."""
        log = self._log(job)
        try:
            with Heartbeat(lambda: self._renew_lease(job), self._config.heartbeat_s) as heartbeat:
                self._read_document(job, fingerprint, heartbeat)
        except (*JOB_LOST_ERRORS, DocumentNotFound) as error:
            log.info("stopped reading", reason=error.code)
        except ShuttingDown:
            self._write_outcome(job, lambda: self._storage.jobs.release(job))
        except GpuBusy as error:  # another process may free memory, but a job must not wait forever
            log.warning("no memory left on the GPU", reason=error.code)
            self._retry_or_fail(job, DocumentTooLargeForGpu.code, TOO_LARGE)
        except Transient as error:
            log.warning("job will be tried again", reason=error.code)
            delay_s = _delay_s(job)
            self._write_outcome(job, lambda: self._storage.jobs.release(job, delay_s=delay_s))
        except (InvalidInput, Permanent) as error:
            self._fail(job, error.code, error.message)
        except Exception as error:
            log.error("reading failed", **_describe(error))
            self._retry_or_fail(job, LecternError.code, UNEXPECTED)

    def _read_document(self, job: JobRecord, fingerprint: str, heartbeat: Heartbeat) -> None:
        """Build and publish the artifact, unless there is a current one already."""
        storage = self._storage
        document = storage.documents.find(job.document_id)
        current = storage.artifacts.current(document.id)
        if current is not None and current.fingerprint == fingerprint:
            storage.jobs.finish(job)
            storage.notifier.notify_watchers(document.id)
            return
        report = ProgressReport(storage, job, heartbeat, self._stop)
        path = storage.blobs.path(document.blob_key)
        built = self._builder.build(path, document.kind, report)
        with storage.artifacts.draft(document.id, fingerprint) as draft:
            for name, data in built.files:
                report(Phase.PACK, 0, built.num_tokens)
                draft.write(name, data)
            draft.publish(
                job,
                built.manifest,
                kv_bytes=built.kv_bytes,
                num_tokens=built.num_tokens,
                num_pages=built.num_pages,
                reading_ms=report.prefill_ms,
            )
        self._log(job).info("document ready", num_tokens=built.num_tokens)
        storage.notifier.notify_watchers(document.id)

    def _renew_lease(self, job: JobRecord) -> None:
        self._storage.jobs.heartbeat(job, self._config.lease_s)

    def _retry_or_fail(self, job: JobRecord, code: str, message: str) -> None:
        if job.crashes + 1 >= self._config.max_attempts:
            self._fail(job, code, message)
            return
        self._write_outcome(
            job, lambda: self._storage.jobs.release(job, delay_s=_delay_s(job), crashed=True)
        )

    def _fail(self, job: JobRecord, code: str, message: str) -> None:
        self._log(job).info("document failed", code=code)
        self._write_outcome(job, lambda: self._storage.jobs.fail(job, code, message))
        self._storage.notifier.notify_watchers(job.document_id)

    def _write_outcome(self, job: JobRecord, write: Callable[[], None]) -> None:
        """Write how a job ended; if the database stays unavailable, the lease ends by itself."""
        for wait_s in OUTCOME_RETRIES_S:
            try:
                write()
                return
            except JOB_LOST_ERRORS as error:
                self._log(job).info("job was taken over", reason=error.code)
                return
            except Transient as error:
                self._log(job).warning("outcome not written yet", reason=error.code)
                time.sleep(wait_s)

    def _log(self, job: JobRecord | None = None) -> Any:
        log = structlog.get_logger("lectern.worker").bind(owner=self._owner)
        if job is None:
            return log
        return log.bind(
            job_id=str(job.id), document_id=str(job.document_id), attempt=job.attempt
        )  # fmt: skip


def _delay_s(job: JobRecord) -> float:
    """Return the seconds until the next try: two after the first attempt, then four, eight, …"""
    return min(LONGEST_DELAY_S, 2.0 ** min(job.attempt, 10))


def _describe(error: BaseException) -> dict[str, str]:
    """Return where an error comes from, without its message, which may quote the document."""
    names = []
    cause: BaseException | None = error
    while cause is not None:
        names.append(type(cause).__name__)
        cause = cause.__cause__ or cause.__context__
    return {
        "error": " from ".join(names),
        "trace": "".join(traceback.format_tb(error.__traceback__)),
    }
