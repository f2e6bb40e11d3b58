"""Server and worker as separate processes, as docker-compose.yml runs them."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import httpx
import pytest

from cli.client import Client, Refused
from tests.flows.conftest import ROOT, START_S, STOP_S, LecternServer, MakeServer
from tests.forked import fork_lectern
from tests.services import postgresql_schema, redis_url

TEXT = "The lamp of Varnholm burned twelve litres of oil a night. " * 20


@pytest.fixture
def api(make_server: MakeServer, tiny_model: str) -> Iterator[LecternServer]:
    """A server without a worker, over PostgreSQL and Redis."""
    with postgresql_schema() as url:
        server = make_server(
            LECTERN_MODEL=tiny_model,
            LECTERN_DATABASE_URL=url,
            LECTERN_REDIS_URL=redis_url(),
            LECTERN_SERVER__EMBEDDED_WORKER="false",
        )
        yield server
        server.end()


@contextmanager
def started(environment: Mapping[str, str], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start a `lectern` command as people do; it is killed if it does not end by itself."""
    process = subprocess.Popen(
        [sys.executable, "-m", "cli.main", *arguments],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    with process, process.stdout:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def worker(api: LecternServer, tmp_path: Path) -> Iterator[ForkServerProcess]:
    """`lectern worker` beside it, past its start."""
    process, output = fork_lectern(["worker"], api.environment, ROOT, tmp_path / "worker.log")
    try:
        with output, open(output.fileno(), closefd=False) as stream:
            assert any("Waiting for documents" in line for line in stream)
            yield process
    finally:
        process.kill()
        process.join()


def test_a_worker_apart_reads_what_the_api_takes_in(
    api: LecternServer, worker: ForkServerProcess, tmp_path: Path
) -> None:
    path = tmp_path / "lamp.txt"
    path.write_text(TEXT)
    with api.client() as client:
        document_id = client.upload_path(path)["id"]
        assert list(client.events(document_id))[-1]["status"] == "ready"
        assert client.ask(document_id, "How much oil?", max_tokens=4)["document_id"] == document_id
    worker.terminate()
    worker.join(STOP_S)
    assert worker.exitcode == 0


def lectern(server: LecternServer, *arguments: str) -> str:
    """Run a command on the server's machine; return its output."""
    ended = subprocess.run(
        [sys.executable, "-m", "cli.main", *arguments],
        cwd=ROOT,
        env=server.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout.strip()


def test_a_key_is_made_listed_and_revoked_beside_a_running_server(
    shared_server: LecternServer,
) -> None:
    key = lectern(shared_server, "key", "create", "another")
    assert key.startswith("lk_")
    assert key != shared_server.key
    prefix = key.rpartition("_")[0]
    with Client(shared_server.url, key) as client:
        assert isinstance(list(client.documents()), list)
        assert prefix in lectern(shared_server, "key", "list")
        assert lectern(shared_server, "key", "revoke", prefix) == f"Revoked {prefix} (another)."
        with pytest.raises(Refused, match="revoked"):
            list(client.documents())
    with shared_server.client() as client:
        assert isinstance(list(client.documents()), list)


def test_a_taken_port_is_one_sentence(shared_server: LecternServer, tiny_model: str) -> None:
    port = httpx.URL(shared_server.url).port
    ended = subprocess.run(
        [sys.executable, "-m", "cli.main", "serve", "--port", str(port)],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "LECTERN_MODEL": tiny_model},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert f"Cannot listen on 127.0.0.1:{port}" in ended.stderr


def test_a_server_that_is_started_as_people_start_it_answers_and_ends(
    tmp_path: Path, tiny_model: str
) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "LECTERN_MODEL": tiny_model,
        "LECTERN_DATA_DIR": str(tmp_path / "data"),
    }
    with started(environment, "serve", "--port", "0") as process:
        assert process.stdout is not None
        told: list[str] = []
        while "serves on" not in "".join(told):
            told.append(process.stdout.readline())
            assert process.poll() is None
        (key,) = re.findall(r"\blk_\w+", "".join(told))
        (url,) = re.findall(r"serves on (http://\S+)", "".join(told))
        with Client(url, key) as client:
            assert list(client.documents()) == []
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0


def test_a_model_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "HF_HUB_OFFLINE": "1",
        "LECTERN_MODEL": str(tmp_path / "nothing"),
        "LECTERN_DATA_DIR": str(tmp_path / "data"),
    }
    log = tmp_path / "errors.txt"
    process, output = fork_lectern(["serve", "--port", "0"], environment, ROOT, log)
    process.join(START_S)
    output.close()
    assert process.exitcode == 1
    assert "Traceback" not in log.read_text()
    assert "Name a folder" in " ".join(log.read_text().split())
