"""A place to put a file of given bytes."""

from collections.abc import Callable
from pathlib import Path

import pytest

Put = Callable[[bytes], Path]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Write bytes to a file without a telling name, as uploads are stored."""

    def write(data: bytes) -> Path:
        path = tmp_path / "upload"
        path.write_bytes(data)
        return path

    return write
