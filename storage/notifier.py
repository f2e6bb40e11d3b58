"""The bell that settings ask for: Redis if there is a URL, else polling."""

from typing import cast
from uuid import UUID

from common import plugins
from common.errors import DocumentNotFound
from storage import notify as bells
from storage.documents import Documents
from storage.jobs.jobs import Jobs
from storage.notify.base import Bell, BellConfig, Event


def make_bell(documents: Documents, jobs: Jobs, redis_url: str = "") -> Bell:
    """Build the bell whose truth is in `documents` and `jobs`."""

    def look(document_id: UUID) -> Event | None:
        return state_of(documents, jobs, document_id)

    config = BellConfig(look=look, url=redis_url)
    return cast(Bell, plugins.build(bells, "redis" if redis_url else "poll", config))


def state_of(documents: Documents, jobs: Jobs, document_id: UUID) -> Event | None:
    """A document's state as watchers get it; None if there is no such document."""
    try:
        document = documents.find(document_id)
    except DocumentNotFound:
        return None
    job = jobs.latest(document_id)
    failed = document.status == "failed"
    return {
        "status": document.status,
        "phase": None if job is None else job.phase,
        "tokens_done": 0 if job is None else job.tokens_done,
        "tokens_total": 0 if job is None else job.tokens_total,
        "error": {"code": document.error_code, "message": document.error_message}
        if failed
        else None,
    }
