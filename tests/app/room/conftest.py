"""A browser in process, logged in with an API key."""

import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from app.factory import create_app
from app.services.services import Services
from tests.app.seeding import StorageSeeder

ORIGIN = {"origin": "http://testserver"}


def log_in(browser: TestClient, key: str, **form: str):
    return browser.post("/login", data={"key": key, **form}, headers=ORIGIN)


def csrf_of(page: str) -> str:
    found = re.search(r'name="csrf" content="([^"]+)"', page)
    assert found
    return found[1]


@pytest.fixture
def browser(services: Services, seeder: StorageSeeder) -> Iterator[TestClient]:
    """A browser that has not logged in and does not follow redirects."""
    with TestClient(create_app(services), follow_redirects=False) as browser:
        yield browser


@pytest.fixture
def key(seeder: StorageSeeder) -> str:
    """An API key of the tenant `owner`."""
    return seeder.headers()["authorization"].removeprefix("Bearer ")


@pytest.fixture
def reader(browser: TestClient, key: str) -> TestClient:
    """A browser that has logged in."""
    assert log_in(browser, key).status_code == 303
    return browser
