"""The work of keeping a conversation's turns for its next question, after an answer was given."""

from typing import TYPE_CHECKING
from uuid import UUID

import structlog

from common.owner import Owner
from engine.decode.answer import Answer, TextDelta
from engine.decode.sampling import Sampling
from engine.decode.turn_states import DocumentKey
from engine.document.budget import Budget
from engine.document.cache import DocumentCache
from engine.model.prompt import Turn
from engine.residents.documents import Lease
from engine.serving.request import AnswerRequest
from storage.db.records import DocumentRecord

if TYPE_CHECKING:  # for annotations alone
    from app.services.document_loader import DocumentLoader


def key_of(
    tenant_id: UUID, document: DocumentRecord | None, lease: Lease[DocumentCache] | None
) -> DocumentKey | None:
    """Return as whose turns earlier ones may be kept; None if they may not."""
    if document is None:
        return DocumentKey(tenant_id, None)
    if lease is None or lease.key is None:
        return None
    return DocumentKey(document.id, lease.key)


class TurnsJob:
    """Has turns prefilled and kept; an `AnswerListener` to whom nothing is delivered.

    If it fails, the next question prefills them, as if they had been kept and evicted.

    Args:
        loader: leases the document.
        no_document: what a chat without a document is about.
        tenant_id: whose conversation it is.
        document: what it is about; None for a chat with the model alone.
    """

    is_cancelled = False

    def __init__(
        self,
        loader: "DocumentLoader",
        no_document: DocumentCache,
        tenant_id: UUID,
        document: DocumentRecord | None,
    ) -> None:
        self._loader = loader
        self._no_document = no_document
        self._tenant_id, self._document = tenant_id, document
        self._lease: Lease[DocumentCache] | None = None

    def request(self, owner: Owner, turns: tuple[Turn, ...], budget: Budget) -> AnswerRequest:
        """Return what the engine loop is asked.

        Args:
            owner: whose turn of the engine it takes.
            turns: oldest first.
            budget: of the questions.
        """
        sampling = Sampling(max_tokens=1)
        return AnswerRequest(owner, "", budget, sampling, self, turns=turns, turns_alone=True)

    def begin(self) -> None:
        """Nobody waits for it."""

    def open_document(self) -> DocumentCache:
        """Lease the document. Raises: as `DocumentLoader.lease`."""
        if self._document is None:
            return self._no_document
        self._lease = self._loader.lease(self._document)
        return self._lease.cache

    @property
    def document_key(self) -> DocumentKey | None:
        """See `AnswerListener.document_key`."""
        return key_of(self._tenant_id, self._document, self._lease)

    def deliver(self, item: TextDelta | Answer) -> None:
        """Nothing is delivered."""

    def end(self, error: Exception | None) -> None:
        """Give the document back."""
        if self._lease is not None:
            self._lease.close()
        if error is not None:
            log = structlog.get_logger("lectern.questions")
            log.info("turns were not kept", reason=type(error).__name__)
