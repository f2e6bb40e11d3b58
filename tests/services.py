"""The real services that tests use: absent ones skip a test on a laptop and fail it in CI."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn
from uuid import uuid4

import psycopg
import pytest
import redis

POSTGRESQL = os.environ.get(
    "LECTERN_TEST_DATABASE_URL", "postgresql+psycopg://root@127.0.0.1:5432/test"
)
REDIS = os.environ.get("LECTERN_TEST_REDIS_URL", "redis://127.0.0.1:6379/0")


def missing(service: str) -> NoReturn:
    """End the test: as skipped, or in CI, where every service must be up, as failed."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"{service} is not running, and CI may not do without.")
    pytest.skip(f"{service} is not running.")


@contextmanager
def postgresql_schema() -> Iterator[str]:
    """The URL of a fresh schema in the test database; dropped afterwards."""
    schema = f"lectern_{uuid4().hex[:12]}"
    try:
        connection = psycopg.connect(
            POSTGRESQL.replace("+psycopg", ""), autocommit=True, connect_timeout=3
        )
    except psycopg.OperationalError:
        missing("PostgreSQL")
    with connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        try:
            yield f"{POSTGRESQL}?options=-csearch_path%3D{schema}"
        finally:
            connection.execute(f"DROP SCHEMA {schema} CASCADE")
    connection.close()


def redis_url() -> str:
    """The URL of a Redis server that answers."""
    client = redis.Redis.from_url(REDIS, socket_connect_timeout=2, socket_timeout=2)
    try:
        client.ping()
    except redis.RedisError:
        missing("Redis")
    finally:
        client.close()
    return REDIS
