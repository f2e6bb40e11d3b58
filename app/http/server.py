"""Running the app under uvicorn, with a stop that lets answers finish."""

import time
from types import FrameType

import uvicorn
from fastapi import FastAPI

from app.http.head_timeout import DeadlineProtocol
from app.services.services import Services

DRAIN_S = 20.0
CLOSE_S = 8


class Server(uvicorn.Server):
    """Uvicorn whose first signal drains: new work gets 503 while running answers finish."""

    def __init__(self, config: uvicorn.Config, services: Services) -> None:
        super().__init__(config)
        self._services = services
        self._stop_s: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Begin to stop on the first signal, stop at once on the second."""
        if self._stop_s is not None:
            self.should_exit = True
            return
        self._services.questions.drain()
        self._stop_s = time.monotonic() + DRAIN_S

    async def on_tick(self, counter: int) -> bool:
        """Leave the main loop once no question is left, or the grace time is over."""
        if self._stop_s is not None:
            if time.monotonic() > self._stop_s:
                self._services.questions.abandon()
                self.should_exit = True
            load = self._services.questions.load()
            self.should_exit |= load.running + load.waiting == 0
        return await super().on_tick(counter)


def make_server(app: FastAPI, services: Services, *, host: str, port: int) -> Server:
    """Make a server for `app`; call its `run()` on the main thread.

    Args:
        port: 0 takes a free one.
    """
    config = uvicorn.Config(
        app,
        http=DeadlineProtocol,
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
