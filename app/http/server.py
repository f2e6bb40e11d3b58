"""The uvicorn server, which lets answers finish when it is told to stop."""

import time
from types import FrameType

import uvicorn
from fastapi import FastAPI

from app.http.head_timeout import HeadTimeoutProtocol
from app.services.services import Services

DRAIN_S = 20.0
CLOSE_S = 8


class Server(uvicorn.Server):
    """A server that drains at the first signal: running answers finish, new work gets a 503."""

    def __init__(self, config: uvicorn.Config, services: Services) -> None:
        super().__init__(config)
        self._services = services
        self._drained_by_s: float | None = None
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
        return await super().on_tick(counter)


def make_server(app: FastAPI, services: Services, *, host: str, port: int) -> Server:
    """Make a server for `app`; its `run()` is called on the main thread.

    Args:
        port: the port to listen on; 0 chooses a free one.
    """
    config = uvicorn.Config(
        app,
        http=HeadTimeoutProtocol,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=CLOSE_S,
        timeout_keep_alive=30,
        h11_max_incomplete_event_size=32 * 1024,
    )
    return Server(config, services)
