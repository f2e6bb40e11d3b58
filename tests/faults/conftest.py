"""Processes to be killed, over both databases."""

import time
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import pytest

from storage.db.records import DocumentRecord
from storage.storage import Storage
from tests.faults.child import open_at
from tests.forked import fork_context
from tests.storage.conftest import send_text

Start = Callable[..., ForkServerProcess]
Upload = Callable[..., DocumentRecord]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where bytes lie."""
    return tmp_path / "data"


@pytest.fixture
def storage(url: str, folder: Path) -> Iterator[Storage]:
    """The test's own view of what the processes share."""
    opened = open_at(url, folder)
    yield opened
    opened.close()


@pytest.fixture
def upload(storage: Storage, tmp_path: Path) -> Upload:
    """Upload a text."""

    def send(text: str = "A text.", owner: UUID | None = None) -> DocumentRecord:
        return send_text(storage, tmp_path, owner or storage.tenants.default(), text)[0]

    return send


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process that runs a function of `tests.faults.child`; none outlives its test."""
    context = fork_context()
    started: list[ForkServerProcess] = []

    def begin(target: Callable[..., None], *arguments: Any) -> ForkServerProcess:
        process = context.Process(target=target, args=arguments)
        process.start()
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.join()
        process.close()


def wait_for(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait for something to become true."""
    deadline_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline_s, "waited in vain"
        time.sleep(0.01)


def wait_until_stopped(process: ForkServerProcess) -> None:
    """Wait until a process has been stopped by SIGSTOP."""
    wait_for(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
