"""Housekeeping beside the work: jobs of dead workers, stale artifacts, and files without a row."""

import threading
import time

import structlog

from common.errors import Transient
from storage.storage import Storage

SWEEP_INTERVAL_S = 5.0
COLLECT_INTERVAL_S = 60.0


class Sweeper:
    """Does the housekeeping. Every worker has a sweeper; several may run at the same time.

    Args:
        fingerprint: names the current model and settings; ready documents without an artifact of
            this fingerprint are queued once.
        max_attempts: number of crashes after which a job fails.
    """

    def __init__(self, storage: Storage, fingerprint: str, max_attempts: int) -> None:
        self._storage = storage
        self._fingerprint = fingerprint
        self._max_attempts = max_attempts
        self._has_queued_stale = False
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
        """Queue lost jobs again, and remove files without a row if it is time to."""
        self._requeue()
        if time.monotonic() - self._collected_s >= COLLECT_INTERVAL_S:
            self._storage.artifacts.collect_garbage()
            self._storage.documents.collect_garbage()
            self._collected_s = time.monotonic()

    def _requeue(self) -> None:
        dead_owners = self._storage.liveness.dead_owners()
        queued = list(self._storage.jobs.sweep(self._max_attempts, dead_owners))
        self._storage.liveness.forget(dead_owners)
        if not self._has_queued_stale:
            queued += self._storage.jobs.enqueue_stale(self._fingerprint)
            self._has_queued_stale = True
        if queued:
            structlog.get_logger("lectern.sweeper").info("jobs queued again", num_jobs=len(queued))
            self._storage.notifier.notify_workers()
