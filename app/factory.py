"""Make the FastAPI app of its routers, error handlers and middleware."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.concurrency import run_in_threadpool

from app.admin import routes as admin
from app.documents import actions, content
from app.documents import pages as document_pages
from app.documents import routes as documents
from app.documents.upload import remove_leftovers
from app.http import errors, health, metrics
from app.http.auth import authenticate
from app.http.exchange import ExchangeLimits
from app.http.middleware import RequestLimitsMiddleware
from app.http.request_log import RequestLog
from app.http.schemas import ErrorBody
from app.openai import chat, files, models, responses
from app.questions import routes as questions
from app.room import routes as room
from app.services.services import Services
from app.tenants import routes as tenants
from app.web import pages
from common.logging import log_loop_error

GRACE_S = 25.0
WRITES_S = 5.0
ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": "The request cannot be met."},
    "5XX": {"model": ErrorBody, "description": "The server cannot meet it now."},
}
openapi_router = APIRouter()


@openapi_router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> dict[str, Any]:
    """Return the OpenAPI schema."""
    schema: dict[str, Any] = request.app.openapi()
    return schema


def create_app(services: Services) -> FastAPI:
    """Make the app around `services`; its lifespan starts and stops the threads."""
    app = FastAPI(
        title="Lectern",
        version=version("lectern"),
        lifespan=_lifespan,
        openapi_url=None,  # served by a route that asks for an API key
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.services = services
    # Each route checks key and scope itself. Routes are tried in this order: those of questions
    # come first, as somebody waits for each of their milliseconds.
    for router in (
        questions.router,
        chat.router,
        responses.router,
        documents.router,
        actions.router,
        content.router,
        document_pages.router,
        models.router,
        files.router,
        tenants.router,
    ):
        app.include_router(router, responses=ERROR_RESPONSES)
    app.include_router(openapi_router, dependencies=[Depends(authenticate)])
    app.include_router(health.router)
    app.include_router(pages.router)
    room.install(app)
    app.include_router(metrics.router, responses=ERROR_RESPONSES)
    admin.install(app, services.data_dir)
    errors.install(app)
    limits = ExchangeLimits(
        max_upload_bytes=services.config.max_upload_bytes,
        open_requests=services.open_requests,
        stopping_s=services.question_queue.draining_s,
        large_bodies=services.upload_room.places,
    )
    app.state.request_log = RequestLog(services.metrics)
    app.add_middleware(RequestLimitsMiddleware, limits=limits, log=app.state.request_log)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    services: Services = app.state.services
    asyncio.get_running_loop().set_exception_handler(log_loop_error)
    await run_in_threadpool(remove_leftovers, services.data_dir / "incoming")
    services.question_queue.start()
    services.background_writes.start()
    services.deleted_documents.start()
    for document in await run_in_threadpool(services.storage.documents.pinned):
        services.prefetcher.start(document)
    try:
        with app.state.admin.lines.listening():
            yield
    finally:
        services.prefetcher.close()
        await run_in_threadpool(services.question_queue.close, GRACE_S)
        await run_in_threadpool(services.background_writes.close, WRITES_S)
        await run_in_threadpool(services.deleted_documents.close, WRITES_S)
