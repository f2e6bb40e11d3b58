"""Health checks for supervisors and load balancers; the only routes without an API key."""

from fastapi import APIRouter, Response

from app.http.schemas import HealthBody, ReadinessBody, ReadinessChecks
from app.services.services import ServicesDep

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> HealthBody:
    """Tell that the process answers; nothing is waited for."""
    return HealthBody()


@router.get(
    "/readyz",
    responses={503: {"model": ReadinessBody, "description": "Questions cannot be answered now."}},
)
async def readyz(services: ServicesDep, response: Response) -> ReadinessBody:
    """Tell whether questions can be answered and documents are read, and if not, why."""
    problems = await services.checks.problems()
    reasons = {name: problem for name, problem in problems.items() if problem is not None}
    if reasons:
        response.status_code = 503
    return ReadinessBody(
        status="unavailable" if reasons else "ready",
        checks=ReadinessChecks(**{name: name not in reasons for name in problems}),
        reasons=reasons,
    )
