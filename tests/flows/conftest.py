"""A real server in a process of its own, on a tiny random model or on the bundled reader."""

import os
import queue
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import httpx
import pytest
from transformers import LlamaConfig

from cli.client import Client
from tests.forked import fork_lectern
from tests.models import byte_tokenizer, random_model, sizes

ROOT = Path(__file__).resolve().parents[2]
CONTEXT = 32_768
MAX_UPLOAD_BYTES = 4 << 20
START_S = 120.0
STOP_S = 60.0


class LecternServer:
    """`lectern serve` on a free port; may be killed and started again on the same data."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.data_dir = folder / "data"
        self._log = folder / "server.log"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "HF_HUB_OFFLINE": "1",
            "LECTERN_DATA_DIR": str(self.data_dir),
            "LECTERN_SERVER__PORT": "0",
            "LECTERN_STORED_ANSWER_HOURS": "0",  # every question is worked on
            **environment,
        }
        self._process: ForkServerProcess | None = None
        self._pump = threading.Thread()
        self.lines: list[str] = []
        self.url = ""
        self.key = ""

    def start(self) -> None:
        """Start and wait until it takes questions; keeps the key of the first start."""
        self._process, output = fork_lectern(["serve"], self.environment, ROOT, self._log)
        self.lines = self._banner(output)
        banner = "\n".join(self.lines)
        self.url = re.findall(r"serves on (http://\S+)", banner)[0]
        self.key = "".join(re.findall(r"lk_\S+", banner)) or self.key
        self._wait_until_ready()

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        assert self._process.pid is not None
        return self._process.pid

    def stop(self) -> int:
        """End it as supervisors do; returns its exit code."""
        os.kill(self.pid, signal.SIGTERM)
        return self.wait(STOP_S)

    def wait(self, timeout_s: float) -> int:
        """Wait until it has ended; returns its exit code."""
        assert self._process is not None
        self._process.join(timeout_s)
        code = self._process.exitcode
        assert code is not None, f"the server does not end\n{self.log()}"
        self._pump.join()
        return code

    def kill(self) -> None:
        """End it as power cuts do."""
        assert self._process is not None
        self._process.kill()
        self.wait(STOP_S)

    def end(self) -> None:
        """Make sure that nothing is left running."""
        if self._process is not None:
            self.kill()

    def change(self, **environment: str) -> None:
        """Change settings for the next start."""
        self.environment |= environment

    def client(self) -> Client:
        """A client with the server's key."""
        return Client(self.url, self.key)

    def log(self) -> str:
        """What it wrote to standard error so far."""
        return self._log.read_text()

    def _banner(self, output: Connection) -> list[str]:
        """Its output up to the line that names the address."""
        arrived: queue.Queue[str] = queue.Queue()

        def pump() -> None:
            with output, open(output.fileno(), closefd=False) as stream:
                for line in stream:
                    arrived.put(line.rstrip("\n"))
            arrived.put("(end)")

        self._pump = threading.Thread(target=pump)
        self._pump.start()
        lines: list[str] = []
        while not any("serves on" in line for line in lines):
            lines.append(arrived.get(timeout=START_S))
            assert lines[-1] != "(end)", f"the server ended: {lines}\n{self.log()}"
        return lines

    def _wait_until_ready(self) -> None:
        deadline_s = time.monotonic() + START_S
        has_worker = self.environment.get("LECTERN_SERVER__EMBEDDED_WORKER", "true") == "true"
        missing = set() if has_worker else {"workers", "queue"}  # it answers without a worker
        while time.monotonic() < deadline_s:
            try:
                body = httpx.get(f"{self.url}/readyz", trust_env=False).json()
                if body["reasons"].keys() <= missing:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        raise AssertionError(f"the server did not become ready\n{self.log()}")


MakeServer = Callable[..., LecternServer]


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[MakeServer]:
    """Start servers with given settings; all are ended after the test."""
    servers: list[LecternServer] = []

    def make(**environment: str) -> LecternServer:
        folder = tmp_path / f"server-{len(servers)}"
        folder.mkdir()
        server = LecternServer(folder, environment)
        servers.append(server)
        server.start()
        return server

    yield make
    for server in servers:
        server.end()


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a random model of one token a byte: quick, and its answers mean nothing."""
    folder = tmp_path_factory.mktemp("tiny-model")
    config = LlamaConfig(**sizes() | {"max_position_embeddings": CONTEXT})
    random_model(config).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture
def tiny_server(make_server: MakeServer, tiny_model: str) -> LecternServer:
    """A server of the test's own on the tiny model."""
    return make_server(LECTERN_MODEL=tiny_model)


@pytest.fixture(scope="session")
def shared_server(
    tmp_path_factory: pytest.TempPathFactory, tiny_model: str
) -> Iterator[LecternServer]:
    """One server on the tiny model for all tests that neither stop nor change it."""
    environment = {
        "LECTERN_MODEL": tiny_model,
        "LECTERN_SERVER__MAX_UPLOAD_BYTES": str(MAX_UPLOAD_BYTES),
    }
    server = LecternServer(tmp_path_factory.mktemp("server"), environment)
    try:
        server.start()
        yield server
    finally:
        server.end()
