"""Models of error bodies and health checks, which OpenAPI shows and responses are made of."""

import unicodedata
from typing import Literal

from pydantic import BaseModel, ConfigDict

MIN_TTL_S, MAX_TTL_S = 60, 100 * 365 * 24 * 3600  # for which a document may be kept
MOST_PRIORITY = 9  # above or below what is usual


def whole_characters(text: str) -> str:
    """Return a text without NUL. Raises: ValueError if it holds half a surrogate pair."""
    if any(unicodedata.category(char) == "Cs" for char in text):
        raise ValueError("holds half a surrogate pair, which is no character")
    return text.replace("\x00", "")


class Body(BaseModel):
    """Base class of all bodies that are sent; unknown fields are an error."""

    model_config = ConfigDict(extra="forbid")


class ErrorDetail(Body):
    """What went wrong. Programs should look at `code`."""

    message: str
    type: str
    param: str | None
    code: str


class ErrorBody(Body):
    """The body of every error, also of `event: error` in event streams."""

    error: ErrorDetail


class HealthBody(Body):
    """The process answers."""

    status: Literal["ok"] = "ok"


class ReadinessChecks(Body):
    """What has to be true for questions to be answered and documents to be read."""

    database: bool
    questions: bool
    accepting: bool
    engine: bool
    weights: bool
    workers: bool
    queue: bool
    disk: bool


class ReadinessBody(Body):
    """Whether questions can be answered, what was checked, and a reason for each that fails."""

    status: Literal["ready", "unavailable"]
    checks: ReadinessChecks
    reasons: dict[str, str]
