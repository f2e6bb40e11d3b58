"""What the tests of the HTTP side share."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio, as the server does."""
    return "asyncio"
