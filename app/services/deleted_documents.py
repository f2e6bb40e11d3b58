"""Removes documents from memory that another process has deleted."""

import threading
from typing import Any
from uuid import UUID

import structlog

from common.errors import Transient
from engine.residents.documents import ResidentDocuments
from storage.artifacts.store import Artifacts

LOOK_S = 10.0


class DeletedDocuments:
    """Looks every few seconds whether what is in memory is still stored.

    Args:
        look_s: seconds between two looks.
    """

    def __init__(
        self, documents: ResidentDocuments[Any], artifacts: Artifacts, look_s: float = LOOK_S
    ) -> None:
        self._documents = documents
        self._artifacts = artifacts
        self._look_s = look_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="deleted-documents", daemon=True)
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """End the thread; waits at most so many seconds."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def forget(self) -> int:
        """Remove from memory what is no longer stored; return how many documents that were."""
        keys = [key for key in self._documents.tiers() if isinstance(key, UUID)]
        gone = set(keys) - self._artifacts.existing(keys) if keys else set()
        for key in gone:
            self._documents.drop(key)
        return len(gone)

    def _run(self) -> None:
        log = structlog.get_logger("lectern.documents")
        while not self._stop.wait(self._look_s):
            try:
                num_documents = self.forget()
            except Transient as error:
                log.warning("deleted documents stay in memory for now", reason=error.code)
                continue
            if num_documents:
                log.info("deleted documents removed from memory", num_documents=num_documents)
