"""The outermost middleware: every request becomes an exchange, and a line in the log."""

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from app.http.exchange import EXCHANGE, Exchange, ExchangeLimits
from app.http.request_log import RequestLog


class RequestLimitsMiddleware:
    """ASGI middleware around the whole app.

    It gives every request an id, limits the size of its body and the time in which the body must
    arrive and the response be read, and turns an exception that nothing else has handled into the
    one error body, so that no traceback reaches a caller.

    Args:
        app: the app inside.
        limits: what holds for all requests.
        log: where each request gets its line.
    """

    def __init__(self, app: ASGIApp, limits: ExchangeLimits, log: RequestLog) -> None:
        self._app = app
        self._limits = limits
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send, self._limits)
        scope[EXCHANGE] = exchange
        with structlog.contextvars.bound_contextvars(request_id=exchange.request_id):
            self._log.write(await exchange.run(self._app))
