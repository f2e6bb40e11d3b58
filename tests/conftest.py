"""What all tests share."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest_plugins = ["tests.databases"]

# Before the first Triton function is made: without a GPU they are interpreted.
if not Path("/dev/nvidia0").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")
if "LECTERN_TEST_GPU" in os.environ:  # then no test may be skipped for want of one, or interpreted
    import torch

    if not torch.cuda.is_available() or "TRITON_INTERPRET" in os.environ:
        raise pytest.UsageError(
            "LECTERN_TEST_GPU is set, but torch sees no GPU here, or Triton is told to interpret."
        )


LONGEST = ("flows", "faults")  # folders of few tests that take long


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that no worker is left with it alone in the end."""
    folders = [Path(__file__).with_name(name) for name in LONGEST]
    items.sort(key=lambda item: not any(map(item.path.is_relative_to, folders)))


def pytest_collection_finish() -> None:
    """Let no garbage collection look through all that was imported, which takes half a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Tiny models are quickest on one thread; tests that never met torch do not import it."""
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _quick_interpreter() -> Iterator[None]:
    """Kernels take half the time; tests that never met Triton do not import it."""
    with pytest.MonkeyPatch.context() as patch:
        if "TRITON_INTERPRET" in os.environ and "triton" in sys.modules:
            from tests.interpreter import hasten

            hasten(patch)
        yield
