"""Which document a chat is about: a file that it names, or the name of its model."""

from uuid import UUID

from fastapi.concurrency import run_in_threadpool

from app.documents.schemas import parse_document_id
from app.services.services import Services
from common.errors import AmbiguousDocument, DocumentNotFound, ModelNotFound
from storage.db.records import DocumentRecord

MODEL = "lectern"
PREFIX = f"{MODEL}/"
MOST_CANDIDATES = 10


async def find_document(
    services: Services, tenant_id: UUID, file_id: str | None, model: str
) -> DocumentRecord | None:
    """Return the document of a chat; None if it is about none.

    Args:
        file_id: the file that its messages name, which counts more than the model's name.
        model: `lectern` or the name of the model that is served; `lectern/` and a document's name
            or id for a chat about that document.
    Raises: DocumentNotFound; AmbiguousDocument if several documents have the name; ModelNotFound.
    """
    if not model.startswith(PREFIX) and model not in (MODEL, services.engine.model.name):
        raise ModelNotFound(
            f"There is no such model: it is called '{MODEL}', or '{PREFIX}' and a document's name.",
            param="model",
        )
    if file_id is not None:
        document_id = parse_document_id(file_id)
        return await run_in_threadpool(services.storage.documents.get, tenant_id, document_id)
    if not model.startswith(PREFIX):
        return None
    return await run_in_threadpool(_by_name, services, tenant_id, model.removeprefix(PREFIX))


def model_of(document: DocumentRecord) -> str:
    """Return the name of the model for chats about a document."""
    return PREFIX + document.filename


def _by_name(services: Services, tenant_id: UUID, name: str) -> DocumentRecord:
    documents = services.storage.documents
    named = documents.named(tenant_id, name, MOST_CANDIDATES)
    if len(named) > 1:
        candidates = ", ".join(f"{PREFIX}{document.id}" for document in named)
        raise AmbiguousDocument(
            f"Several documents have this name; ask for one by its id: {candidates}.", param="model"
        )
    if named:
        return named[0]
    try:
        return documents.get(tenant_id, parse_document_id(name))
    except DocumentNotFound:
        raise ModelNotFound("There is no document of this name.", param="model") from None
