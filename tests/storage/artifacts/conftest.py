"""What the tests of artifacts share."""

from pathlib import Path

import pytest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of all artifacts."""
    return tmp_path / "data" / "artifacts"
