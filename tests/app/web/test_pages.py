"""The files that pages load: the listed ones, as they were published."""

import hashlib
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from app.web import pages

STATIC = Path(pages.__file__).parent / "static"


def test_static_files_are_the_listed_ones(client: TestClient) -> None:
    del client.headers["authorization"]
    for name, kind in pages.STATIC.items():
        response = client.get(f"/static/{name}")
        assert response.status_code == 200
        assert response.headers["content-type"].startswith(kind)
        assert "max-age" in response.headers["cache-control"]
    for name in ("NOTICE.md", "..%2fpages.py", "%2e%2e/pages.py", "x.css"):
        assert client.get(f"/static/{name}").status_code == 404


@pytest.mark.parametrize("name", ["htmx.min.js", "uPlot.iife.min.js", "uPlot.min.css"])
def test_a_vendored_file_is_the_published_one(name: str) -> None:
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()
    assert f"| `{name}` |" in (notice := (STATIC / "NOTICE.md").read_text())
    assert digest in notice
