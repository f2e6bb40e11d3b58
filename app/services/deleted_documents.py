"""Ends what is about documents that another process has deleted: answers, and what is in memory."""

import threading
import time
from collections.abc import Collection, Hashable
from contextlib import suppress
from typing import Any, Protocol
from uuid import UUID

import structlog

from common.errors import DELETED, DocumentDeleted, LecternError, Transient
from engine.decode.turn_states import TurnStates
from engine.residents.documents import ResidentDocuments
from storage.db.records import DocumentRecord
from storage.documents import Documents
from storage.tenants import Tenants

WATCH_S = 1.0  # between two looks at the documents that questions are about
LOOK_S = 10.0  # and at those that are in memory


class Questions(Protocol):
    """The questions that are in the queue or being answered."""

    def document_ids(self) -> Collection[Hashable]:
        """Return the documents that they are about."""
        ...

    def cancel_document(self, document_id: Hashable, error: LecternError) -> None:
        """Stop those about a document."""
        ...


class DeletedDocuments:
    """Looks every few seconds whether what is asked about, and what is in memory, is still stored.

    Args:
        watch_s: seconds between two looks at the documents that questions are about.
        look_s: seconds between two looks at what is in memory.
    """

    def __init__(
        self,
        residents: ResidentDocuments[Any],
        documents: Documents,
        tenants: Tenants,
        turn_states: TurnStates,
        questions: Questions,
        watch_s: float = WATCH_S,
        look_s: float = LOOK_S,
    ) -> None:
        self._residents = residents
        self._turn_states = turn_states
        self._documents, self._tenants = documents, tenants
        self._questions = questions
        self._watch_s, self._look_s = watch_s, look_s
        self._lock = threading.Lock()
        self._watched: dict[UUID, DocumentRecord] = {}
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

    def watch(self, document: DocumentRecord) -> None:
        """Look after a document as long as questions about it are in the queue or being answered.

        Called after a question about it was accepted.

        Args:
            document: its record, from before that.
        """
        with self._lock:
            self._watched[document.id] = document

    def stop_questions(self) -> None:
        """Stop the questions about watched documents that have been deleted.

        While an original is there, SQL is not asked; answers go on while the database is away.
        """
        with self._lock:  # so that what is accepted meanwhile stays watched
            asked_about = self._questions.document_ids()
            self._watched = {key: one for key, one in self._watched.items() if key in asked_about}
            watched = tuple(self._watched.values())
        for document in watched:
            with suppress(LecternError, OSError):  # it is looked at again
                if self._documents.is_deleted(document):
                    self._questions.cancel_document(document.id, DocumentDeleted(DELETED))

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
        looked_s = time.monotonic()
        while not self._stop.wait(self._watch_s):
            self.stop_questions()
            if time.monotonic() - looked_s < self._look_s:
                continue
            looked_s = time.monotonic()
            try:
                num_documents = self.forget()
            except Transient as error:
                log.warning("deleted documents stay in memory for now", reason=error.code)
                continue
            if num_documents:
                log.info("deleted documents removed from memory", num_documents=num_documents)
