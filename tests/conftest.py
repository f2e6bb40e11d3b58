"""What all tests share."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Tiny models are quickest on one thread; tests that never met torch do not import it."""
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)
