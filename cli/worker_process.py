"""A worker in a process of its own, which a server starts, watches and stops."""

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import structlog

RESTART_S = 2.0
STOP_TIMEOUT_S = 40.0


def worker_command(data_dir: Path) -> list[str]:
    """The command of a worker that has the settings of this process's environment."""
    return [sys.executable, "-m", "cli.main", "worker", "--data-dir", str(data_dir)]


@contextmanager
def worker_process(
    command: Sequence[str], weights_bytes: int, restart_s: float = RESTART_S
) -> Iterator[None]:
    """Run a worker beside the server while the block runs; one that ends is started again.

    It shares nothing with the server but the data folder and the database. Its documents go back
    into the queue when the block ends.

    Args:
        weights_bytes: of the model, which either process holds; it is told in the log.
    """
    log = structlog.get_logger("lectern.worker")
    log.info(
        "documents are read in a process of their own",
        weights_bytes=weights_bytes,
        hint="both processes hold the weights, and the worker a document while it reads it: "
        "LECTERN_SERVER__MEMORY_SHARE leaves it memory",
    )
    stop = threading.Event()
    thread = threading.Thread(
        target=_keep_running, args=(command, stop, restart_s), name="worker-process", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(2 * STOP_TIMEOUT_S)


def _keep_running(command: Sequence[str], stop: threading.Event, restart_s: float) -> None:
    log = structlog.get_logger("lectern.worker")
    while not stop.is_set():
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while process.poll() is None and not stop.wait(0.2):
            pass
        if stop.is_set():
            _end(process)
            return
        code = process.returncode
        log.error("the worker's process has ended", code=code)
        stop.wait(restart_s)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
