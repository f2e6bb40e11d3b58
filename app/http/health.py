"""Health checks for supervisors and load balancers; the only routes without an API key."""

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool

from app.http.schemas import HealthBody, ReadinessBody, ReadinessChecks
from app.services.services import Services, ServicesDep
from common.errors import LecternError

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> HealthBody:
    """Tell that the process answers."""
    return HealthBody()


@router.get(
    "/readyz",
    responses={503: {"model": ReadinessBody, "description": "Questions cannot be answered now."}},
)
async def readyz(services: ServicesDep, response: Response) -> ReadinessBody:
    """Tell whether questions can be answered: database, threads, and whether the server stops."""
    checks = ReadinessChecks(
        database=await run_in_threadpool(_database_answers, services),
        questions=services.question_queue.is_healthy(),
        accepting=not services.question_queue.is_draining,
    )
    if all(checks.model_dump().values()):
        return ReadinessBody(status="ready", checks=checks)
    response.status_code = 503
    return ReadinessBody(status="unavailable", checks=checks)


def _database_answers(services: Services) -> bool:
    try:
        services.storage.db.check()
    except LecternError:
        return False
    return True
