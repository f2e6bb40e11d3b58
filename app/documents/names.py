"""Which document a name stands for: the same for every call, and for the command line."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from common.errors import AmbiguousDocument, DocumentNotFound
from storage.db.records import DocumentRecord

if TYPE_CHECKING:  # for annotations alone
    from storage.documents import Documents

MOST_CANDIDATES = 10


def fitting_documents(
    documents: "Documents", tenant_id: UUID, name: str, limit: int = MOST_CANDIDATES
) -> Sequence[DocumentRecord]:
    """Return the documents that a name stands for, at most so many, newest first.

    They are those of this file name, of versions the one that answers; if there is none, the
    document of this id, or those whose id begins so.
    """
    named = documents.named(tenant_id, name, limit)
    return named or documents.with_id_like(tenant_id, name, limit)


def find_document(
    documents: "Documents", tenant_id: UUID, name: str, param: str, prefix: str = ""
) -> DocumentRecord:
    """Return the one document that a name stands for.

    Args:
        param: name of the parameter that holds the name.
        prefix: what stands before an id where one is named.
    Raises: DocumentNotFound; AmbiguousDocument, with the candidates.
    """
    found = fitting_documents(documents, tenant_id, name)
    if not found:
        raise DocumentNotFound(param=param)
    if len(found) > 1:
        candidates = ", ".join(f"{prefix}{document.id}" for document in found)
        raise AmbiguousDocument(
            f"Several documents have this name; ask for one by its id: {candidates}.", param=param
        )
    return found[0]
