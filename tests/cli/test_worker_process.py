"""A server's worker in a process of its own is started again when it ends, and stopped with it."""

import os
import sys
from pathlib import Path

from structlog.testing import capture_logs

from cli.worker_process import worker_command, worker_process
from tests.workers.conftest import wait_for

NOTE = "import os, sys; open(sys.argv[1], 'a').write(f'{os.getpid()}\\n')"


def pids(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_worker_that_ends_is_started_again(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    with (
        capture_logs() as logs,
        worker_process([sys.executable, "-c", NOTE, str(file)], 10, restart_s=0.01),
    ):
        wait_for(lambda: len(pids(file)) >= 2)
    assert logs[0]["weights_bytes"] == 10
    assert "MEMORY_SHARE" in logs[0]["hint"]
    assert logs[1]["log_level"] == "error"
    assert logs[1]["code"] == 0


def test_the_worker_ends_with_the_block(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    code = NOTE + "; import time; time.sleep(600)"
    with worker_process([sys.executable, "-c", code, str(file)], 10):
        wait_for(lambda: pids(file))
        (pid,) = pids(file)
        assert is_alive(pid)
    assert not is_alive(pid)


def test_it_is_a_worker_of_the_same_folder(tmp_path: Path) -> None:
    assert worker_command(tmp_path)[1:] == [
        "-m", "cli.main", "worker", "--data-dir", str(tmp_path),
    ]  # fmt: skip
