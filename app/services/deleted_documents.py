"""Removes from memory what another process has deleted: documents, and turns of conversations."""

import threading
from typing import Any
from uuid import UUID

import structlog

from common.errors import Transient
from engine.decode.turn_states import TurnStates
from engine.residents.documents import ResidentDocuments
from storage.documents import Documents
from storage.tenants import Tenants

LOOK_S = 10.0


class DeletedDocuments:
    """Looks every few seconds whether what is in memory is still stored.

    Args:
        look_s: seconds between two looks.
    """

    def __init__(
        self,
        residents: ResidentDocuments[Any],
        documents: Documents,
        tenants: Tenants,
        turn_states: TurnStates,
        look_s: float = LOOK_S,
    ) -> None:
        self._residents = residents
        self._turn_states = turn_states
        self._documents, self._tenants = documents, tenants
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
        """Remove from memory what is no longer stored.

        Turns of chats without a document go with their tenant.

        Returns: how many documents and tenants that were.
        """
        in_memory = {*self._residents.tiers(), *self._turn_states.owners()}
        known = [one for one in in_memory if isinstance(one, UUID)]
        if not known:
            return 0
        gone = set(known) - self._documents.existing(known) - self._tenants.existing(known)
        for one in gone:
            self._residents.drop_document(one)
            self._turn_states.drop(one)
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
