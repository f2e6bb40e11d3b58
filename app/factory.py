"""The application: routers, each closed by default, inside one envelope."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.concurrency import run_in_threadpool

from app.admin import routes as admin
from app.documents import routes as documents
from app.documents.upload import sweep
from app.http import errors, health
from app.http.auth import authenticate
from app.http.middleware import Envelope
from app.questions import routes as ask
from app.schema import ErrorBody
from app.services.services import Services

GRACE_S = 25.0
FAILURES: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": "The request cannot be met."},
    "5XX": {"model": ErrorBody, "description": "The server cannot meet it now."},
}
schema = APIRouter()


@schema.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> dict[str, Any]:
    """Return the API's schema."""
    described: dict[str, Any] = request.app.openapi()
    return described


def create_app(services: Services) -> FastAPI:
    """Make the app around `services`; its lifespan starts and stops the question threads."""
    app = FastAPI(
        title="Lectern",
        version=version("lectern"),
        lifespan=_lifespan,
        openapi_url=None,  # served by a route that asks for a key
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.services = services
    for router in (documents.router, ask.router, schema):
        app.include_router(router, dependencies=[Depends(authenticate)], responses=FAILURES)
    app.include_router(health.router)
    admin.install(app)
    errors.install(app)
    app.add_middleware(Envelope, max_upload_bytes=services.config.max_upload_bytes)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    services: Services = app.state.services
    await run_in_threadpool(sweep, services.data_dir / "incoming")
    services.questions.start()
    try:
        yield
    finally:
        await run_in_threadpool(services.questions.close, GRACE_S)
