"""Housekeeping beside the work: jobs of dead workers, room for artifacts, files without a row."""

import threading
import time

import structlog

from common.errors import Transient
from storage.processes import SERVER, WORKER
from storage.storage import Storage

SWEEP_INTERVAL_S = 5.0
COLLECT_INTERVAL_S = 60.0


class Sweeper:
    """Does the housekeeping. Every worker has a sweeper; several may run at the same time.

    Args:
        storage: as a process with the worker's model and settings sees it.
        max_attempts: number of crashes after which a job fails.
    """

    def __init__(self, storage: Storage, max_attempts: int) -> None:
        self._storage = storage
        self._max_attempts = max_attempts
        self._collected_s = -COLLECT_INTERVAL_S

    def run(self, stop: threading.Event) -> None:
        """Sweep every few seconds until `stop` is set."""
        log = structlog.get_logger("lectern.sweeper")
        while not stop.is_set():
            try:
                self.sweep()
            except Transient as error:
                log.warning("sweep put off", reason=error.code)
            except Exception as error:
                log.error("sweep failed", error=type(error).__name__)
            stop.wait(SWEEP_INTERVAL_S)

    def sweep(self) -> None:
        """Queue lost jobs again, keep to the limit of space, and at times remove what is old."""
        self._requeue()
        self._delete_expired()
        self._storage.space.trim()
        if time.monotonic() - self._collected_s >= COLLECT_INTERVAL_S:
            self._collect()
            self._collected_s = time.monotonic()

    def _requeue(self) -> None:
        storage = self._storage
        dead_owners = storage.liveness.dead_owners()
        queued = storage.jobs.sweep(self._max_attempts, dead_owners)
        storage.liveness.forget(dead_owners)
        living = [*storage.processes.living(SERVER), *storage.processes.living(WORKER)]
        storage.jobs.adopt_orphans(
            {storage.fingerprint, *(process.fingerprint for process in living)}
        )
        if queued:
            structlog.get_logger("lectern.sweeper").info("jobs queued again", num_jobs=len(queued))
            storage.notifier.notify_workers()

    def _delete_expired(self) -> None:
        documents = self._storage.documents
        expired = [*documents.delete_expired(), *documents.delete_replaced()]
        if expired:
            log = structlog.get_logger("lectern.sweeper")
            log.info(
                "documents deleted whose time had come",
                num_documents=len(expired),
            )

    def _collect(self) -> None:
        storage, days = self._storage, self._storage.config.answer_days
        storage.quotas.prune(time.time())
        storage.artifacts.collect_garbage()
        storage.documents.collect_garbage()
        storage.processes.prune()
        storage.turns.delete_expired()
        storage.stored_answers.delete_expired()
        storage.browser_sessions.delete_expired()
        if days:
            storage.answers.prune(days)
        storage.db.erase_deleted()
