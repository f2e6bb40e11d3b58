"""What all tests share."""

import os
import sys
from pathlib import Path

import pytest

# Before the first Triton function is made: without a GPU they are interpreted.
if not Path("/dev/nvidia0").exists():
    if "LECTERN_TEST_GPU" in os.environ:
        raise pytest.UsageError("LECTERN_TEST_GPU is set, but this machine has no NVIDIA GPU.")
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Tiny models are quickest on one thread; tests that never met torch do not import it."""
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)
