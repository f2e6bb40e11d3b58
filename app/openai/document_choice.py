"""Which document a chat is about: a file that it names, or the name of its model."""

from uuid import UUID

from fastapi.concurrency import run_in_threadpool

from app.documents.names import find_document as by_name
from app.documents.schemas import parse_document_id
from app.services.services import Services
from common.errors import DocumentNotFound, ModelNotFound
from storage.db.records import DocumentRecord

MODEL = "lectern"
PREFIX = f"{MODEL}/"


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
    name = model.removeprefix(PREFIX)
    try:
        return await run_in_threadpool(
            by_name, services.storage.documents, tenant_id, name, "model", PREFIX
        )
    except DocumentNotFound:
        raise ModelNotFound("There is no document of this name.", param="model") from None


def model_of(document: DocumentRecord) -> str:
    """Return the name of the model for chats about a document."""
    return PREFIX + document.filename
