"""The table from error codes to HTTP statuses, and the error body that all errors share."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from app.http.schemas import ErrorBody, ErrorDetail
from common.error_trace import error_trace
from common.errors import InvalidInput, LecternError, NotReady, QuotaExceeded, Transient

STATUS: Mapping[str, int] = MappingProxyType(
    {
        "invalid_input": 400,
        "unsupported_parameter": 400,
        "ambiguous_document": 400,
        "malformed_json": 400,
        "malformed_body": 400,
        "invalid_api_key": 401,
        "invalid_metrics_token": 401,
        "forbidden": 403,
        "insufficient_scope": 403,
        "metrics_closed": 403,
        "tenant_suspended": 403,
        "not_found": 404,
        "document_not_found": 404,
        "answer_not_found": 404,
        "model_not_found": 404,
        "key_not_found": 404,
        "tenant_not_found": 404,
        "document_deleted": 404,
        "method_not_allowed": 405,
        "request_timeout": 408,
        "not_ready": 409,
        "document_not_ready": 409,
        "cache_stale": 409,
        "cache_rebuilding": 409,
        "pins_exceed_memory": 409,
        "document_pinned": 409,
        "upload_too_large": 413,
        "unsupported_type": 415,
        "invalid_request": 422,
        "empty_question": 422,
        "question_too_long": 422,
        "conversation_too_long": 422,
        "document_failed": 422,
        "document_rejected": 422,
        "document_too_long": 422,
        "reading_timeout": 422,
        "document_too_large_for_gpu": 422,
        "document_too_large_for_memory": 422,
        "empty_document": 422,
        "encrypted_pdf": 422,
        "archive_bomb": 422,
        "unknown_encoding": 422,
        "non_finite_numbers": 422,
        "too_many_questions": 429,
        "too_many_requests": 429,
        "rate_limit_exceeded": 429,
        "quota_exceeded": 429,
        "internal_error": 500,
        "transient": 503,
        "busy": 503,
        "database_unavailable": 503,
        "gpu_busy": 503,
        "memory_full": 503,
        "model_changed": 503,
        "step_failed": 503,
        "shutting_down": 503,
        "question_timeout": 504,
        "storage_full": 507,
    }
)
FAMILIES: tuple[tuple[type[LecternError], int], ...] = (
    (InvalidInput, 400),
    (NotReady, 409),
    (Transient, 503),
)
RETRY_AFTER_S: Mapping[int, int] = MappingProxyType({409: 2, 429: 2, 503: 5, 507: 60})
LONGEST_RETRY_S = 60.0  # the `openai` client waits no longer, and would try again at once
CODE = "lectern.code"  # where a request's scope has the code of the error that was sent
UNEXPECTED = "Something went wrong on the server. Quote the x-request-id header to its operator."
STATUS_ERRORS: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        400: ("malformed_body", "The request body cannot be read."),
        403: ("forbidden", "This request is not allowed."),
        404: ("not_found", "There is nothing at this address."),
        405: ("method_not_allowed", "This address does not take that method."),
        408: ("request_timeout", "The request body arrived too slowly."),
        413: ("upload_too_large", "The request body is larger than this server takes."),
    }
)


@dataclass(frozen=True)
class Failure:
    """What the caller gets to know about an error.

    Attributes:
        status: the HTTP status.
        code, message, param: the fields of the error body.
        retry_after_s: seconds after which a second try makes sense, if that is known.
    """

    status: int
    code: str
    message: str
    param: str | None = None
    retry_after_s: float | None = None

    def body(self) -> ErrorBody:
        """Return the error body, which is the same for responses and for `event: error`."""
        return ErrorBody(
            error=ErrorDetail(
                message=self.message, type=_type(self.status), param=self.param, code=self.code
            )
        )

    def headers(self) -> dict[str, str]:
        """Return Retry-After where a second try makes sense, and WWW-Authenticate for a 401.

        Where something must be deleted first, or the wait is longer than the `openai` client would
        wait, that client is told not to try again by itself.
        """
        headers = {"www-authenticate": "Bearer"} if self.status == 401 else {}
        if self.code == QuotaExceeded.code and self.retry_after_s is None:
            return {"x-should-retry": "false"}
        wait_s = self.retry_after_s or RETRY_AFTER_S.get(self.status)
        if wait_s is not None:
            headers["retry-after"] = str(max(1, math.ceil(wait_s)))
            if wait_s > LONGEST_RETRY_S:
                headers["x-should-retry"] = "false"
        return headers

    def response(self) -> "FailureResponse":
        """Return the whole response."""
        return FailureResponse(self)


class FailureResponse(JSONResponse):
    """An error body, whose code is noted in the request's scope for the log."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.body().model_dump(), failure.status, failure.headers())
        self._code = failure.code

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        scope[CODE] = self._code
        await super().__call__(scope, receive, send)


class BodyRefused(HTTPException):
    """The rest of a request's body is not waited for.

    It is an HTTPException because FastAPI takes any other error of reading a body for its own.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.status)
        self.failure = failure


def explain(error: Exception) -> Failure:
    """Return what the caller may know about an exception; an internal error is logged."""
    status = _status(error) if isinstance(error, LecternError) else 500
    if status == 500 or not isinstance(error, LecternError):
        log = structlog.get_logger("lectern.http")
        log.error("unexpected error", exception=error_trace(error))
        return Failure(500, "internal_error", UNEXPECTED)
    return Failure(status, error.code, error.message, error.param, error.retry_after_s)


def explain_status(status: int) -> Failure:
    """Return what the caller gets for an HTTP status that routing or a body limit has raised."""
    if status in STATUS_ERRORS:
        return Failure(status, *STATUS_ERRORS[status])
    return Failure(500, "internal_error", UNEXPECTED)


def explain_validation(error: RequestValidationError) -> Failure:
    """Return which field is wrong; the message never repeats the caller's values."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return Failure(400, "malformed_json", "The request body is not valid JSON.")
    place = [str(part) for part in first["loc"][1:]]
    if place == ["question"] and first["type"] == "missing":
        return Failure(422, "empty_question", "Ask a question: `question` is missing.", "question")
    message = first["msg"].removeprefix("Value error, ")
    param = place[0] if place else None
    return Failure(422, "invalid_request", f"{param or 'body'}: {message}.", param)


def install(app: FastAPI) -> None:
    """Make `app` answer every exception with the error body."""
    app.add_exception_handler(LecternError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_validation)
    app.add_exception_handler(HTTPException, _answer_status)


async def _answer_error(_: Request, error: Exception) -> JSONResponse:
    return explain(error).response()


async def _answer_validation(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RequestValidationError):
        raise error
    return explain_validation(error).response()


async def _answer_status(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        raise error
    if isinstance(error, BodyRefused):
        return error.failure.response()
    response = explain_status(error.status_code).response()
    response.headers.update(error.headers or {})
    return response


def _status(error: LecternError) -> int:
    if error.code in STATUS:
        return STATUS[error.code]
    return next((status for family, status in FAMILIES if isinstance(error, family)), 500)


def _type(status: int) -> str:
    if status == 401:
        return "authentication_error"
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"
