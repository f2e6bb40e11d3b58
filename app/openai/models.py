"""Routes of models: the model that is served, and one name for each ready document."""

from collections.abc import Sequence

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool

from app.http.auth import ScopedRoute, TenantDep, needs
from app.openai.document_choice import MODEL, find_document, model_of
from app.openai.schemas import ModelBody, ModelList
from app.services.services import ServicesDep
from common.scopes import Scope
from common.status import DocumentStatus
from storage.db.records import DocumentRecord
from storage.documents import present_versions

router = APIRouter(prefix="/v1/models", tags=["openai"], route_class=ScopedRoute)
READS = [needs(Scope.READ)]
MOST_DOCUMENTS = 1000


@router.get("", dependencies=READS)
async def list_models(tenant_id: TenantDep, services: ServicesDep) -> ModelList:
    """List the model, and `lectern/<document name>` for each of the newest ready documents."""
    list_documents = services.storage.documents.list
    documents = await run_in_threadpool(list_documents, tenant_id, MOST_DOCUMENTS)
    return ModelList(data=[ModelBody(id=MODEL, created=0), *_of_documents(documents)])


@router.get("/{model:path}", dependencies=READS)
async def get_model(model: str, tenant_id: TenantDep, services: ServicesDep) -> ModelBody:
    """Return one model, by the name that chats use."""
    document = await find_document(services, tenant_id, None, model)
    if document is None:
        return ModelBody(id=model, created=0)
    return ModelBody(id=model, created=int(document.created_at.timestamp()))


def _of_documents(documents: Sequence[DocumentRecord]) -> list[ModelBody]:
    """The names of the ready documents; a name that several have stands for none, so ids do."""
    documents = present_versions(documents)
    ready = [document for document in documents if document.status is DocumentStatus.READY]
    names = [document.filename for document in documents]
    return [
        ModelBody(
            id=model_of(document)
            if names.count(document.filename) == 1
            else f"{MODEL}/{document.id}",
            created=int(document.created_at.timestamp()),
        )
        for document in ready
    ]
