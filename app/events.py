"""Following a document while it is read: a frame for every change until it is ready or failed."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any
from uuid import UUID

from fastapi.concurrency import run_in_threadpool

from app.errors import explain
from app.present import error_of
from app.services import Services
from app.sse import encode
from common.errors import DocumentDeleted, DocumentNotFound, LecternError, ShuttingDown, Transient

LOOK_S = 0.25
FINAL = frozenset({"ready", "failed"})


async def follow(
    services: Services, tenant: UUID, document_id: UUID
) -> AsyncGenerator[bytes, None]:
    """Yield `event: progress` frames; `event: error` if the document goes or the server stops."""
    seen: dict[str, Any] | None = None
    while seen is None or seen["status"] not in FINAL:
        now = seen
        try:
            now = await run_in_threadpool(_look, services, tenant, document_id)
        except Transient:
            pass  # the database is away: what was seen last still stands
        except LecternError as error:
            yield encode("error", explain(_gone(error)).body())
            return
        if now is not None and now != seen:
            seen = now
            yield encode("progress", now)
            continue
        if services.questions.draining:
            yield encode("error", explain(ShuttingDown("The server is stopping.")).body())
            return
        await asyncio.sleep(LOOK_S)


def _look(services: Services, tenant: UUID, document_id: UUID) -> dict[str, Any]:
    document = services.storage.documents.get(tenant, document_id)
    job = services.storage.jobs.latest(document_id)
    return {
        "status": document.status,
        "phase": job and job.phase,
        "tokens_done": job and job.tokens_done,
        "tokens_total": job and job.tokens_total,
        "error": error_of(document),
    }


def _gone(error: LecternError) -> LecternError:
    if isinstance(error, DocumentNotFound):
        return DocumentDeleted("The document was deleted while it was being read.")
    return error
