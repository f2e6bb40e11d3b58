"""The uvicorn server, which lets answers finish when it is told to stop."""

import resource
import time
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from app.config import ServerConfig
from app.http.connection import Connection
from app.http.connections import Connections
from app.http.request_log import RequestLog
from app.services.services import Services

DRAIN_S = 20.0
CLOSE_S = 8
BACKLOG = 512  # connections that the system keeps until they are accepted, all in one go
FILES_RESERVE = 256  # of the files that a process may open, for all but connections
LOG_S = 10.0


class Server(uvicorn.Server):
    """A server that drains at the first signal: running answers finish, new work gets a 503."""

    def __init__(
        self,
        config: uvicorn.Config,
        services: Services,
        connections: Connections,
        request_log: RequestLog,
    ) -> None:
        super().__init__(config)
        self._services = services
        self._connections = connections
        self._request_log = request_log
        self._drained_by_s: float | None = None
        self._logged_s = time.monotonic()
        self.is_hurried = False  # whether there was a second signal

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Begin to drain at the first signal, and stop at once at the second."""
        if self._drained_by_s is not None:
            self.should_exit = self.is_hurried = True
            return
        self._services.question_queue.drain()
        self._drained_by_s = time.monotonic() + DRAIN_S

    async def on_tick(self, counter: int) -> bool:
        """Leave the main loop when no question is left, or when the time for draining is over."""
        if self._drained_by_s is not None:
            if time.monotonic() > self._drained_by_s:
                self._services.question_queue.cancel_all()
                self.should_exit = True
            load = self._services.question_queue.load()
            self.should_exit |= load.running + load.waiting == 0
        if time.monotonic() - self._logged_s > LOG_S or self.should_exit:
            self._logged_s = time.monotonic()
            self._request_log.count_refusals(even_now=self.should_exit)
            self._connections.log_cuts()
        return await super().on_tick(counter)


def make_server(app: FastAPI, services: Services, *, host: str, port: int) -> Server:
    """Make a server for `app`; its `run()` is called on the main thread.

    Args:
        port: the port to listen on; 0 chooses a free one.
    """
    connections = Connections(
        _max_connections(services.config), services.config.connections_per_address
    )
    protocol: Any = partial(Connection, connections=connections)
    config = uvicorn.Config(
        app,
        http=protocol,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=CLOSE_S,
        timeout_keep_alive=30,
        h11_max_incomplete_event_size=32 * 1024,
        backlog=BACKLOG,
        proxy_headers=bool(services.config.proxies()),
        forwarded_allow_ips=list(services.config.proxies()),
    )
    return Server(config, services, connections, app.state.request_log)


def _max_connections(config: ServerConfig) -> int:
    """Return how many connections fit among the files that this process may open.

    The process first allows itself as many files as the system lets it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = config.max_connections + FILES_RESERVE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return config.max_connections
    return max(1, min(config.max_connections, soft - FILES_RESERVE))
