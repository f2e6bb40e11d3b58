"""Housekeeping beside the work: jobs of dead workers, artifacts gone stale, forgotten bytes."""

import threading
import time

import structlog

from common.errors import Transient
from storage.storage import Storage

SWEEP_S = 5.0
COLLECT_S = 60.0


class Sweeper:
    """Every worker has one; several at once do no harm.

    Args:
        fingerprint: of artifacts that are current; documents without one are queued, once.
        max_attempts: crashes that park a job.
    """

    def __init__(self, storage: Storage, fingerprint: str, max_attempts: int) -> None:
        self._storage = storage
        self._fingerprint = fingerprint
        self._max_attempts = max_attempts
        self._has_queued_stale = False
        self._collected_s = -COLLECT_S

    def run(self, stop: threading.Event) -> None:
        """Sweep until told to stop."""
        log = structlog.get_logger("lectern.sweeper")
        while not stop.is_set():
            try:
                self.once()
            except Transient as error:
                log.warning("sweep put off", reason=error.code)
            except Exception as error:
                log.error("sweep failed", error=type(error).__name__)
            stop.wait(SWEEP_S)

    def once(self) -> None:
        """Do whatever is due."""
        self._requeue()
        if time.monotonic() - self._collected_s >= COLLECT_S:
            self._storage.artifacts.collect_garbage()
            self._storage.documents.collect_garbage()
            self._collected_s = time.monotonic()

    def _requeue(self) -> None:
        dead = self._storage.presence.dead()
        queued = list(self._storage.jobs.sweep(self._max_attempts, dead))
        self._storage.presence.forget(dead)
        if not self._has_queued_stale:
            queued += self._storage.jobs.enqueue_stale(self._fingerprint)
            self._has_queued_stale = True
        if queued:
            structlog.get_logger("lectern.sweeper").info("queued again", num_jobs=len(queued))
            self._storage.bell.ring()
