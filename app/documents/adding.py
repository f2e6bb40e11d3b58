"""Store a received file as a document, however it was received."""

from typing import TYPE_CHECKING

from app.documents.names import find_document
from app.documents.upload import Upload
from app.documents.wishes import UploadWishes
from ingest.inspect import Kind
from storage.db.records import ApiKeyRecord, DocumentRecord

if TYPE_CHECKING:  # for annotations alone
    from app.services.services import Services


def add_document(
    services: "Services", caller: ApiKeyRecord, file: Upload, kind: Kind, wishes: UploadWishes
) -> DocumentRecord:
    """Store a file that was received and inspected as a document; return it.

    Raises: QuotaExceeded; what `find_document` raises.
    """
    quotas, documents = services.storage.quotas, services.storage.documents
    replaced = None
    if wishes.replaces is not None:
        replaced = find_document(documents, caller.tenant_id, wishes.replaces, "replaces")
    document, was_queued = documents.add(
        caller.tenant_id,
        file.path,
        sha256=file.sha256,
        filename=file.filename,
        kind=kind.name,
        media_type=kind.media_type,
        num_bytes=file.num_bytes,
        uploader=caller.prefix,
        ttl_s=wishes.ttl_s,
        metadata=wishes.metadata,
        priority=wishes.priority,
        admit=lambda session: quotas.admit_document(session, caller, file.num_bytes),
        admit_again=lambda session: quotas.admit_reading(session, caller),
    )
    if replaced is not None:
        document = documents.replace(caller.tenant_id, document.id, replaced.id)
    if was_queued:
        services.storage.notifier.notify_workers()
    return document
