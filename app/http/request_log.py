"""One log line for each request; of refusals to callers without a key a few, and their number."""

from dataclasses import asdict, dataclass
from typing import Self
from uuid import UUID

import structlog
from starlette.types import Scope

from app.services.metrics import Metrics
from common.line_budget import LineBudget

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})


@dataclass(frozen=True)
class RequestLine:
    """What is logged about a request: ids, codes and durations, and nothing that a caller wrote.

    Attributes:
        route: the path of the route, which contains no ids.
        status: None if no response was begun.
        code: of the error that the response tells.
        num_bytes: of the request's body, as far as it arrived.
        key_id: the API key, or None for a request without a valid one.
    """

    method: str
    route: str
    status: int | None
    code: str | None
    duration_ms: float
    num_bytes: int
    key_id: str | None
    document_id: str | None

    @classmethod
    def of(
        cls,
        scope: Scope,
        *,
        status: int | None,
        code: str | None,
        seconds: float,
        num_bytes: int,
        key_id: UUID | None,
    ) -> Self:
        """Make the line of the request with this scope."""
        method = scope["method"]
        return cls(
            method=method if method in METHODS else "other",
            route=str(getattr(scope.get("route"), "path", "none")),
            status=status,
            code=code,
            duration_ms=round(1000 * seconds, 1),
            num_bytes=num_bytes,
            key_id=None if key_id is None else str(key_id),
            document_id=_document_id(scope),
        )

    @property
    def is_refusal(self) -> bool:
        """Whether a caller without a key got no success; anybody can cause any number of these."""
        return self.key_id is None and (self.status is None or self.status >= 400)


class RequestLog:
    """Writes the lines of requests.

    Args:
        metrics: where each request is counted, whether it gets a line or not.
    """

    def __init__(self, metrics: Metrics | None = None) -> None:
        self._metrics = metrics
        self._refusals = LineBudget[tuple[str, int | None, str | None]]()

    def write(self, line: RequestLine) -> None:
        """Write a request's line, unless too many refusals of its kind were written lately."""
        if self._metrics is not None:
            self._metrics.observe_request(
                line.method, line.route, line.status, line.code, line.duration_ms / 1000
            )
        if line.is_refusal and self._refusals.take((line.route, line.status, line.code)) is None:
            return
        log = structlog.get_logger("lectern.http")
        values = {name: value for name, value in asdict(line).items() if value is not None}
        if line.route in PROBES and line.status == 200:
            log.debug("request", **values)
        else:
            log.info("request", **values)

    def count_refusals(self, *, even_now: bool = False) -> None:
        """Write how many refusals got no line of their own; to be called now and then.

        Args:
            even_now: whether to count what is not over yet, since the server stops.
        """
        log = structlog.get_logger("lectern.http")
        counts = self._refusals.take_counts(even_now=even_now)
        for (route, status, code), num_requests in counts.items():
            log.warning(
                "more requests refused",
                route=route,
                status=status,
                code=code,
                num_requests=num_requests,
            )


def _document_id(scope: Scope) -> str | None:
    try:
        return str(UUID(scope.get("path_params", {})["document_id"]))
    except (KeyError, ValueError):
        return None
