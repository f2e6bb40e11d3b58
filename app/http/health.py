"""Health checks for supervisors and load balancers; the only routes without an API key."""

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool

from app.http.schemas import HealthBody, ReadinessBody, ReadinessChecks
from app.services.readiness import (
    database_problem,
    disk_problem,
    queue_problem,
    workers_problem,
)
from app.services.services import Services, ServicesDep

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
    """Tell whether questions can be answered and documents are read, and if not, why."""
    problems = await run_in_threadpool(_problems, services)
    checks = ReadinessChecks(**{name: problem is None for name, problem in problems.items()})
    reasons = {name: problem for name, problem in problems.items() if problem is not None}
    if not reasons:
        return ReadinessBody(status="ready", checks=checks, reasons=reasons)
    response.status_code = 503
    return ReadinessBody(status="unavailable", checks=checks, reasons=reasons)


def _problems(services: Services) -> dict[str, str | None]:
    """Return the result of each check by its name: a reason, or None if all is well."""
    queue, storage, config = services.question_queue, services.storage, services.config
    return {
        "database": database_problem(storage),
        "questions": None if queue.is_healthy() else "Threads that answer questions are missing.",
        "accepting": "The server is stopping." if queue.is_draining else None,
        "engine": services.canary.problem(),
        "workers": workers_problem(storage),
        "queue": queue_problem(storage),
        "disk": disk_problem(services.data_dir, config.max_upload_bytes),
    }
