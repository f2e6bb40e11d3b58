"""Health checks for supervisors and load balancers; the only routes without an API key."""

from fastapi import APIRouter, Response

from app.http.schemas import HealthBody, ReadinessBody
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
    """Tell whether questions can be answered, and if not, what each failed check says."""
    faults = await services.readiness.faults()
    reasons = {name: fault for name, fault in faults.items() if fault is not None}
    if reasons:
        response.status_code = 503
    return ReadinessBody(
        status="unavailable" if reasons else "ready",
        checks={name: fault is None for name, fault in faults.items()},
        reasons=reasons,
    )
