"""Probes for supervisors; the only routes that ask for no key."""

from typing import Any

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from app.services.services import Services, ServicesDep
from common.errors import LecternError

router = APIRouter(tags=["health"])
UNAVAILABLE: dict[int | str, dict[str, Any]] = {
    503: {"description": "Not at the moment.", "content": {"application/json": {}}}
}


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Tell that the process answers."""
    return {"status": "ok"}


@router.get("/readyz", responses=UNAVAILABLE)
async def readyz(services: ServicesDep) -> JSONResponse:
    """Tell whether questions can be answered: database, question threads, not stopping."""
    checks = {
        "database": await run_in_threadpool(_database_answers, services),
        "questions": services.questions.healthy(),
        "accepting": not services.questions.draining,
    }
    ready = all(checks.values())
    body = {"status": "ready" if ready else "unavailable", "checks": checks}
    return JSONResponse(body, 200 if ready else 503)


def _database_answers(services: Services) -> bool:
    try:
        services.storage.db.check()
    except LecternError:
        return False
    return True
