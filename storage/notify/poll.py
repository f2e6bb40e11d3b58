"""A notifier without a server: it wakes workers of this process, and all others poll SQL."""

import threading
import time
from collections.abc import Callable, Iterator
from uuid import UUID

from storage.notify.base import DocumentState, NotifierConfig, yield_changes


class PollNotifier:
    """Wakes a worker that is embedded in the server's process, so that it starts at once.

    Every thread that waits hears of every announcement, also of one that came while it was looking
    for a job: announcements are counted, and each thread remembers how many it has heard.
    """

    def __init__(self, config: NotifierConfig) -> None:
        self._config = config
        self._announced = threading.Condition()
        self._num_announced = 0
        self._heard = threading.local()

    def notify_workers(self) -> None:
        """See `Notifier.notify_workers`."""
        with self._announced:
            self._num_announced += 1
            self._announced.notify_all()

    def wait_for_job(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` seconds; see `Notifier.wait_for_job`."""
        heard = getattr(self._heard, "count", 0)
        with self._announced:
            was_announced = self._announced.wait_for(
                lambda: self._num_announced != heard, timeout_s
            )
            self._heard.count = self._num_announced
        return was_announced

    def notify_watchers(self, document_id: UUID) -> None:
        """Do nothing: watchers poll SQL."""

    def watch(
        self,
        document_id: UUID,  # noqa: ARG002 part of the protocol
        read_state: Callable[[], DocumentState | None],
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[DocumentState]:
        """See `Notifier.watch`."""
        return yield_changes(read_state, lambda: time.sleep(self._config.poll_s), is_stopped)

    def close(self) -> None:
        """See `Notifier.close`."""
        self.notify_workers()


def build(config: NotifierConfig) -> PollNotifier:
    """Make a notifier that needs no server."""
    return PollNotifier(config)
