"""A server that is told to stop while it reads gives the document back, told once or often."""

import signal
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

import httpx
import psutil
import pytest

from tests.flows.conftest import STOP_S, LecternServer
from tests.models import prose


def job_of(server: LecternServer) -> tuple[str, int]:
    """Status and crashes of the one job, read beside the server."""
    with closing(sqlite3.connect(server.data_dir / "lectern.sqlite3")) as database:
        [(status, crashes)] = database.execute("SELECT status, crashes FROM jobs").fetchall()
        return status, crashes


def upload_long_text(server: LecternServer, tmp_path: Path) -> str:
    """Upload a text that takes a while; return its id once it is being read."""
    path = tmp_path / "long.txt"
    path.write_text(prose(30_000))
    with server.client() as client:
        document_id: str = client.upload_path(path)["id"]
        deadline_s = time.monotonic() + 60
        while (client.document(document_id)["progress"] or {}).get("phase") != "prefill":
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
    return document_id


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_document_that_is_being_read_goes_back_to_the_queue(
    tiny_server: LecternServer, tmp_path: Path, times: int
) -> None:
    upload_long_text(tiny_server, tmp_path)
    process = psutil.Process(tiny_server.pid)
    for _ in range(times):
        with suppress(psutil.NoSuchProcess):  # it may have ended by the last one
            process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
    assert tiny_server.wait(STOP_S) == 0
    assert job_of(tiny_server) == ("queued", 0)


def test_a_deleted_document_frees_the_worker(tiny_server: LecternServer, tmp_path: Path) -> None:
    document_id = upload_long_text(tiny_server, tmp_path)
    with tiny_server.client() as client:
        httpx.delete(
            f"{tiny_server.url}/documents/{document_id}",
            headers={"Authorization": f"Bearer {tiny_server.key}"},
            trust_env=False,
        ).raise_for_status()
        path = tmp_path / "next.txt"
        path.write_text(prose(20_000, seed=1))
        following = client.upload_path(path)["id"]
        deadline_s = time.monotonic() + 20
        while client.document(following)["status"] != "reading":
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
    assert "document_deleted" in tiny_server.log()
    for phase in ("model loaded", "the engine was prepared in"):  # how long the start took, and why
        assert phase in tiny_server.log()
