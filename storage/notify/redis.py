"""A notifier over Redis publish/subscribe, which polls while Redis does not answer.

A lost message delays somebody by a moment, but loses no job: every wait ends by itself, and then
SQL is looked at. Messages have no content; what matters is that they arrive.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar
from uuid import UUID

import structlog
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.client import PubSub
from redis.retry import Retry

from storage.notify.base import DocumentState, NotifierConfig, yield_changes
from storage.notify.poll import PollNotifier

TIMEOUT_S = 1.0
BACKOFF_S = 5.0
MESSAGE = "changed"
UNAVAILABLE_ERRORS = (RedisError, OSError)
Result = TypeVar("Result")


class RedisNotifier:
    """Notifies workers and watchers of all processes.

    Args:
        backoff_s: seconds for which Redis is not asked again after a failure, so that a server
            that hangs delays nobody for long.
    """

    def __init__(self, config: NotifierConfig, backoff_s: float = BACKOFF_S) -> None:
        self._config = config
        self._backoff_s = backoff_s
        self._fallback = PollNotifier(config)
        self._redis: Any = Redis.from_url(
            config.url,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._jobs: PubSub | None = None
        self._listening = threading.Lock()
        self._retry_at_s = 0.0
        self._is_unavailable = False

    def notify_workers(self) -> None:
        """See `Notifier.notify_workers`."""
        self._fallback.notify_workers()
        self._call(lambda: self._redis.publish(self._channel("jobs"), MESSAGE))

    def wait_for_job(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` seconds; see `Notifier.wait_for_job`.

        One thread at a time listens to Redis, and tells the others of this process what it hears.
        """
        if self._listening.acquire(blocking=False):
            try:
                was_announced = self._call(lambda: self._listen(timeout_s))
                if was_announced is not None:
                    if was_announced:
                        self._fallback.notify_workers()
                    return was_announced
                self._stop_listening()
            finally:
                self._listening.release()
        return self._fallback.wait_for_job(timeout_s)

    def notify_watchers(self, document_id: UUID) -> None:
        """See `Notifier.notify_watchers`."""
        self._call(lambda: self._redis.publish(self._channel(document_id), MESSAGE))

    def watch(
        self,
        document_id: UUID,
        read_state: Callable[[], DocumentState | None],
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[DocumentState]:
        """See `Notifier.watch`. Messages only say when to look; the states come from SQL."""
        pubsub, poll_s = self._redis.pubsub(ignore_subscribe_messages=True), self._config.poll_s
        try:
            is_subscribed = self._call(lambda: _subscribe(pubsub, self._channel(document_id)))

            def wait() -> None:
                nonlocal is_subscribed
                if is_subscribed:
                    is_subscribed = self._call(lambda: _receive(pubsub, poll_s)) is not None
                else:
                    time.sleep(poll_s)

            yield from yield_changes(read_state, wait, is_stopped)
        finally:
            _close(pubsub)

    def close(self) -> None:
        """See `Notifier.close`."""
        self._fallback.close()
        with self._listening:
            self._stop_listening()
        self._redis.close()

    def _channel(self, name: str | UUID) -> str:
        return f"{self._config.channel}:{name}"

    def _listen(self, timeout_s: float) -> bool:
        if self._jobs is None:
            self._jobs = self._redis.pubsub(ignore_subscribe_messages=True)
            _subscribe(self._jobs, self._channel("jobs"))
            return True  # a message may have been sent before the subscription
        was_announced = _receive(self._jobs, timeout_s)
        while was_announced and _receive(self._jobs, 0.0):
            pass  # several messages count as one
        return was_announced

    def _stop_listening(self) -> None:
        if self._jobs is not None:
            _close(self._jobs)
            self._jobs = None

    def _call(self, command: Callable[[], Result]) -> Result | None:
        """Run a command on Redis; None if Redis is unavailable."""
        if time.monotonic() < self._retry_at_s:
            return None
        try:
            result = command()
        except UNAVAILABLE_ERRORS as error:
            self._note_failure(error)
            return None
        if self._is_unavailable:
            self._is_unavailable = False
            structlog.get_logger("lectern.notify").info("redis answers again")
        return result

    def _note_failure(self, error: Exception) -> None:
        self._retry_at_s = time.monotonic() + self._backoff_s
        if not self._is_unavailable:  # an outage is logged once, however long it is
            self._is_unavailable = True
            log = structlog.get_logger("lectern.notify")
            log.warning("redis does not answer; polling instead", reason=type(error).__name__)


def build(config: NotifierConfig) -> RedisNotifier:
    """Make a notifier for the Redis at `config.url`, which need not be running yet."""
    return RedisNotifier(config)


def _subscribe(pubsub: PubSub, channel: str) -> bool:
    """Subscribe to a channel, and wait until the server has confirmed it."""
    pubsub.subscribe(channel)
    pubsub.get_message(timeout=TIMEOUT_S)
    return True


def _receive(pubsub: PubSub, timeout_s: float) -> bool:
    """Wait for a message; return whether there was one."""
    return pubsub.get_message(timeout=timeout_s) is not None


def _close(pubsub: PubSub) -> None:
    with suppress(*UNAVAILABLE_ERRORS):
        pubsub.close()
