"""Redis pub/sub as doorbell and progress channel; when Redis is away, polling goes on alone.

A message that is lost costs a moment, never a job: waiting ends by itself and SQL is looked at.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar
from uuid import UUID

import structlog
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.client import PubSub
from redis.retry import Retry

from storage.notify.base import BellConfig, Event, changes, never
from storage.notify.poll import PollBell

ANSWER_S = 1.0
AWAY_S = 5.0
AWAY = (RedisError, OSError)
Result = TypeVar("Result")


class RedisBell:
    """A bell that rings across processes, and falls back to polling.

    After a failure Redis is left alone for `away_s`, so that one that hangs slows nothing down.
    """

    def __init__(self, config: BellConfig, away_s: float = AWAY_S) -> None:
        self._config = config
        self._away_s = away_s
        self._alone = PollBell(config)
        self._redis: Any = Redis.from_url(
            config.url,
            socket_timeout=ANSWER_S,
            socket_connect_timeout=ANSWER_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._jobs: PubSub | None = None
        self._listening = threading.Lock()
        self._ask_again_s = 0.0
        self._is_away = False

    def ring(self) -> None:
        """See `Bell.ring`."""
        self._alone.ring()
        self._ask(lambda: self._redis.publish(self._channel("jobs"), "ring"))

    def wait(self, timeout_s: float) -> bool:
        """See `Bell.wait`; one thread at a time listens to Redis, others hear this process only."""
        if self._listening.acquire(blocking=False):
            try:
                heard = self._ask(lambda: self._listen(timeout_s))
                if heard is not None:
                    return heard
                self._stop_listening()
            finally:
                self._listening.release()
        return self._alone.wait(timeout_s)

    def publish(self, document_id: UUID, event: Mapping[str, Any]) -> None:
        """See `Bell.publish`."""
        data = json.dumps(dict(event))
        self._ask(lambda: self._redis.publish(self._channel(document_id), data))

    def subscribe(self, document_id: UUID, stopped: Callable[[], bool] = never) -> Iterator[Event]:
        """See `Bell.subscribe`. Messages say when to look; what is yielded comes from SQL."""
        channel, poll_s = self._redis.pubsub(ignore_subscribe_messages=True), self._config.poll_s
        try:
            joined = self._ask(lambda: _join(channel, self._channel(document_id)))

            def wait() -> None:
                nonlocal joined
                if joined:
                    joined = self._ask(lambda: _next(channel, poll_s)) is not None
                else:
                    time.sleep(poll_s)

            yield from changes(lambda: self._config.look(document_id), wait, stopped)
        finally:
            _close(channel)

    def close(self) -> None:
        """See `Bell.close`."""
        self._alone.close()
        with self._listening:
            self._stop_listening()
        self._redis.close()

    def _channel(self, name: str | UUID) -> str:
        return f"{self._config.channel}:{name}"

    def _listen(self, timeout_s: float) -> bool:
        if self._jobs is None:
            self._jobs = self._redis.pubsub(ignore_subscribe_messages=True)
            _join(self._jobs, self._channel("jobs"))
            return True  # a ring may have come before we listened
        rung = _next(self._jobs, timeout_s)
        while rung and _next(self._jobs, 0.0):
            pass  # many rings are one
        return rung

    def _stop_listening(self) -> None:
        if self._jobs is not None:
            _close(self._jobs)
            self._jobs = None

    def _ask(self, call: Callable[[], Result]) -> Result | None:
        """Do something with Redis; None if it is away."""
        if time.monotonic() < self._ask_again_s:
            return None
        try:
            result = call()
        except AWAY as error:
            self._lose(error)
            return None
        if self._is_away:
            self._is_away = False
            structlog.get_logger("lectern.bell").info("redis is back")
        return result

    def _lose(self, error: Exception) -> None:
        self._ask_again_s = time.monotonic() + self._away_s
        if not self._is_away:  # one line for an outage, however long it is
            self._is_away = True
            log = structlog.get_logger("lectern.bell")
            log.warning("redis does not answer; polling instead", reason=type(error).__name__)


def build(config: BellConfig) -> RedisBell:
    """Make a bell at `config.url`; Redis need not be there yet."""
    return RedisBell(config)


def _join(channel: PubSub, name: str) -> bool:
    """Subscribe, and wait until the server has confirmed."""
    channel.subscribe(name)
    channel.get_message(timeout=ANSWER_S)
    return True


def _next(channel: PubSub, timeout_s: float) -> bool:
    """Wait for a message; whether there was one."""
    return channel.get_message(timeout=timeout_s) is not None


def _close(channel: PubSub) -> None:
    with suppress(*AWAY):
        channel.close()
