"""What an operator can do, each with a word of what it will do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from uuid import UUID

from app.documents.operations import (
    cancel,
    delete_with_answers,
    evict,
    prefetch,
    set_pinned,
)
from app.services.services import Services
from common.status import DocumentStatus

URGENT = 10  # priority of a document that is moved to the front


@dataclass(frozen=True)
class Action:
    """Something that can be done to a document.

    Attributes:
        words: on its button.
        effect: what it will do, in a sentence.
        done: what is said afterwards.
        act: does it to a document of a tenant.
    """

    words: str
    effect: str
    done: str
    act: Callable[[Services, UUID, UUID], object]


def pin(services: Services, tenant_id: UUID, document_id: UUID) -> None:
    """Keep a document's cache in memory."""
    set_pinned(services, tenant_id, document_id, True)


def unpin(services: Services, tenant_id: UUID, document_id: UUID) -> None:
    """Let a document's cache be evicted again."""
    set_pinned(services, tenant_id, document_id, False)


def rebuild(services: Services, tenant_id: UUID, document_id: UUID) -> None:  # noqa: ARG001
    """Queue a document to be read again."""
    services.storage.jobs.enqueue(document_id)
    services.storage.notifier.notify_workers()


def retry(services: Services, tenant_id: UUID, document_id: UUID) -> None:
    """Queue a failed document to be read again; the operator is bound by no quota."""
    document = services.storage.documents.get(tenant_id, document_id)
    if document.status is DocumentStatus.FAILED:
        rebuild(services, tenant_id, document_id)


def prioritise(services: Services, tenant_id: UUID, document_id: UUID) -> None:  # noqa: ARG001
    """Let a document be read before its tenant's others."""
    services.storage.jobs.enqueue(document_id, URGENT)
    services.storage.notifier.notify_workers()


DOCUMENT_ACTIONS: Mapping[str, Action] = MappingProxyType(
    {
        "pin": Action(
            "Pin",
            "Loads its cache and keeps it in memory until it is unpinned; other documents have "
            "less room.",
            "The document is pinned.",
            pin,
        ),
        "unpin": Action(
            "Unpin",
            "It may be evicted again when others need the room.",
            "The document is no longer pinned.",
            unpin,
        ),
        "prefetch": Action(
            "Prefetch",
            "Loads its cache into memory now, so that the next question need not wait.",
            "The document is being loaded.",
            prefetch,
        ),
        "evict": Action(
            "Evict",
            "Frees its memory once no question uses it; the next question loads it from the disk.",
            "The document leaves memory.",
            evict,
        ),
        "rebuild": Action(
            "Rebuild",
            "Reads the original again; its present cache answers until the new one is stored.",
            "The document is queued to be read again.",
            rebuild,
        ),
        "retry": Action(
            "Retry",
            "Queues the failed document to be read again.",
            "The document is queued again.",
            retry,
        ),
        "cancel": Action(
            "Cancel",
            "Stops its reading; it counts as failed until somebody retries it.",
            "The reading is being stopped.",
            cancel,
        ),
        "first": Action(
            "Read first",
            "Puts it before its tenant's other documents; what is being read goes on.",
            "The document is read before the others of its tenant.",
            prioritise,
        ),
        "delete": Action(
            "Delete",
            "Removes its file, cache, conversations and stored answers for good, and stops "
            "questions about it.",
            "The document is deleted.",
            delete_with_answers,
        ),
    }
)


def act_on_document(services: Services, name: str, document_id: UUID) -> None:
    """Do an action to a document of any tenant. Raises: DocumentNotFound; what the action raises.

    Args:
        name: a key of `DOCUMENT_ACTIONS`.
    """
    document = services.storage.documents.find(document_id)
    DOCUMENT_ACTIONS[name].act(services, document.tenant_id, document_id)
