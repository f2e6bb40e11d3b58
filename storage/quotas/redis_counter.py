"""What was used in a span of time, counted in Redis."""

import time
from typing import Any

import structlog
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

from storage.quotas.counters import SqlCounter, Window
from storage.quotas.resources import Resource

TIMEOUT_S = 0.5
BACKOFF_S = 5.0
TAKE = """
local used = tonumber(redis.call('GET', KEYS[1]) or '0')
local granted = math.min(tonumber(ARGV[2]), tonumber(ARGV[3]) - used)
if granted < tonumber(ARGV[1]) then return {0, used} end
used = redis.call('INCRBY', KEYS[1], granted)
redis.call('EXPIRE', KEYS[1], ARGV[4])
return {granted, used}
"""


class RedisCounter:
    """Counts requests in Redis, and in SQL while Redis does not answer.

    What Redis has counted in the present minute is unknown to SQL, and the other way round, so at
    every change between them a limit may be used up once more. Days are counted in SQL alone.

    Args:
        url: of the Redis server.
        channel: begins the names of all keys.
    """

    def __init__(self, url: str, sql: SqlCounter, channel: str = "lectern") -> None:
        self._sql = sql
        self._channel = channel
        self._retry_at_s = 0.0
        self._redis: Any = Redis.from_url(
            url,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._take: Any = self._redis.register_script(TAKE)

    def take(self, window: Window, least: int, wanted: int, limit: int) -> tuple[int, int]:
        """See `Counter.take`."""
        if self._is_for_redis(window):
            seconds = 2 * (window.resource.window_s or 1)
            try:
                granted, used = self._take([self._name(window)], [least, wanted, limit, seconds])
                return int(granted), int(used)
            except (RedisError, OSError) as error:
                self._note_failure(error)
        return self._sql.take(window, least, wanted, limit)

    def add(self, window: Window, amount: int) -> None:
        """See `Counter.add`."""
        if self._is_for_redis(window):
            try:
                self._redis.incrby(self._name(window), amount)
                self._redis.expire(self._name(window), 2 * (window.resource.window_s or 1))
                return
            except (RedisError, OSError) as error:
                self._note_failure(error)
        self._sql.add(window, amount)

    def used(self, window: Window) -> int:
        """See `Counter.used`."""
        if self._is_for_redis(window):
            try:
                return int(self._redis.get(self._name(window)) or 0)
            except (RedisError, OSError) as error:
                self._note_failure(error)
        return self._sql.used(window)

    def close(self) -> None:
        """Close all connections."""
        self._redis.close()

    def _is_for_redis(self, window: Window) -> bool:
        return window.resource is Resource.REQUESTS and time.monotonic() >= self._retry_at_s

    def _name(self, window: Window) -> str:
        return f"{self._channel}:used:{window.owner_id}:{window.resource}:{window.start}"

    def _note_failure(self, error: Exception) -> None:
        self._retry_at_s = time.monotonic() + BACKOFF_S
        log = structlog.get_logger("lectern.storage")
        log.warning("requests are counted in SQL for a while", reason=type(error).__name__)
