"""Without a server: rings reach this process, everybody else looks into SQL now and then."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

from storage.notify.base import BellConfig, Event, changes, never


class PollBell:
    """Rings by an event of this process, so that an embedded worker starts at once."""

    def __init__(self, config: BellConfig) -> None:
        self._config = config
        self._rung = threading.Event()

    def ring(self) -> None:
        """See `Bell.ring`."""
        self._rung.set()

    def wait(self, timeout_s: float) -> bool:
        """See `Bell.wait`."""
        rung = self._rung.wait(timeout_s)
        self._rung.clear()
        return rung

    def publish(self, document_id: UUID, event: Mapping[str, Any]) -> None:
        """Nothing to do: the worker has written its progress to SQL."""

    def subscribe(self, document_id: UUID, stopped: Callable[[], bool] = never) -> Iterator[Event]:
        """See `Bell.subscribe`."""
        config = self._config
        return changes(lambda: config.look(document_id), lambda: time.sleep(config.poll_s), stopped)

    def close(self) -> None:
        """Wake whoever waits."""
        self._rung.set()


def build(config: BellConfig) -> PollBell:
    """Make a bell that needs nothing."""
    return PollBell(config)
