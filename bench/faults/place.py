"""A data folder with servers and workers on it that are killed and started again.

They run in processes that were forked after the code had been imported, so that a start takes about
a second; what runs in them is the `lectern` command itself.
"""

import os
import re
import socket
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from bench.faults.server import START_S, STOP_S, Caller, weights_of
from bench.random_llama import SEED
from bench.serving.model_folder import TINY, write_model_folder
from training.record import Weights, drawn

CONTEXT = get_context("forkserver")
CONTEXT.set_forkserver_preload(["cli.serve", "bench.faults.place"])
PATIENCE_S = 900.0
SPREAD = 0.3  # of random weights: with less, answers about similar documents are the same
NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
# Notes every publication, so that one that happens twice is seen though the row is replaced.
AUDIT = """
CREATE TABLE IF NOT EXISTS publications (document_id, fingerprint);
CREATE TRIGGER IF NOT EXISTS note_publication AFTER INSERT ON artifacts
BEGIN INSERT INTO publications VALUES (NEW.document_id, NEW.fingerprint); END;
"""


def run_command(arguments: Sequence[str], environment: dict[str, str], log: Path) -> None:
    """Become a `lectern` command whose output goes to a file.

    It computes on one thread, so that the same document always gets the same bytes.
    """
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["lectern", *arguments]
    import torch

    from cli.main import main

    torch.set_num_threads(1)
    main()


class Place:
    """A data folder, a port, and the processes that were started there.

    Args:
        folder: is made; has the log and, unless `data` names another one, the data folder.
        model: folder of a model.
        settings: further environment variables of all processes.
    """

    def __init__(
        self,
        folder: Path,
        model: str,
        data: Path | None = None,
        settings: Mapping[str, str] = NO_SETTINGS,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.data = folder, data or folder / "data"
        self.log = folder / "log"
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            self._port = free.getsockname()[1]
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "HF_HUB_OFFLINE": "1",
            "LECTERN_DATA_DIR": str(self.data),
            "LECTERN_SERVER__PORT": str(self._port),
            "LECTERN_STORED_ANSWER_HOURS": "0",  # every question is worked on
            "LECTERN_MODEL": model,
            **settings,
        }
        self._started: list[ForkServerProcess] = []

    @property
    def url(self) -> str:
        """The server's address, which is the same after every start."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def key(self) -> str:
        """The key that the first start printed. Raises: IndexError before it."""
        return str(re.findall(r"lk_\w+", self.log.read_text())[0])

    def start(self, command: str, **settings: str) -> ForkServerProcess:
        """Start a server or a worker.

        Args:
            command: `serve` or `worker`.
            settings: environment variables of this process, beside those of the place.
        """
        environment = self._environment | settings
        process = CONTEXT.Process(target=run_command, args=([command], environment, self.log))
        process.start()
        self._started.append(process)
        return process

    def kill(self, process: ForkServerProcess) -> None:
        """End a process by SIGKILL."""
        process.kill()
        process.join()
        self._started.remove(process)

    def stop(self, process: ForkServerProcess) -> None:
        """End a process by SIGTERM. Raises: TimeoutError."""
        process.terminate()
        process.join(STOP_S)
        if process.is_alive():
            raise TimeoutError("the process did not stop")
        self._started.remove(process)

    def close(self) -> None:
        """End all processes."""
        for process in tuple(self._started):
            self.kill(process)

    def caller(self) -> Caller:
        """Return a client with the first key."""
        return Caller(self.url, self.key, timeout_s=60.0)

    def wait_until_ready(self) -> None:
        """Wait until /readyz is 200. Raises: TimeoutError, SystemExit, with the end of the log."""
        try:
            wait_for(lambda: self._is_ready() or self._has_ended(), START_S)
        except TimeoutError as error:
            raise TimeoutError(self.log.read_text()[-3000:]) from error
        if self._has_ended():
            raise SystemExit(self.log.read_text()[-3000:])

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Read from the SQLite database."""
        with closing(sqlite3.connect(self._database(), timeout=30)) as connection:
            return connection.execute(statement, values).fetchall()

    def watch_publications(self) -> None:
        """Note every publication from now on; for `published_twice`."""
        with closing(sqlite3.connect(self._database(), timeout=30)) as connection:
            connection.executescript(AUDIT)

    def published_twice(self) -> int:
        """Return how many documents were published more than once for one fingerprint."""
        again = "SELECT 1 FROM publications GROUP BY document_id, fingerprint HAVING count(*) > 1"
        return len(self.query(again))

    def _is_ready(self) -> bool:
        try:
            with closing(Caller(self.url, timeout_s=10.0)) as caller:
                return caller.call("GET", "/readyz").status == 200
        except OSError:
            return False

    def _has_ended(self) -> bool:
        return any(not process.is_alive() for process in self._started)

    def _database(self) -> Path:
        return self.data / "lectern.sqlite3"


@contextmanager
def place(
    model: str, data: Path | None = None, settings: Mapping[str, str] = NO_SETTINGS
) -> Iterator[Place]:
    """Make a fresh place, which is removed after the block with all its processes."""
    with TemporaryDirectory(prefix="lectern-faults-") as name:
        made = Place(Path(name), model, data, settings)
        try:
            yield made
        finally:
            made.close()


def wait_for(
    condition: Callable[[], object], timeout_s: float = PATIENCE_S, every_s: float = 0.05
) -> float:
    """Wait until something holds, looking again and again.

    Returns: the seconds that it took.
    Raises: TimeoutError.
    """
    started_s = time.monotonic()
    while not condition():
        if time.monotonic() - started_s > timeout_s:
            raise TimeoutError(f"waited {timeout_s:g} s in vain")
        time.sleep(every_s)
    return time.monotonic() - started_s


QUESTION = "What is the access code of the north tower?"


@contextmanager
def small_model(model: str) -> Iterator[tuple[str, Weights]]:
    """Write a model that reads a small document in 0.1 s and says something else of each.

    Args:
        model: folder of the model to serve instead, if one is named.
    Returns: a context manager of the folder and of what results say about the weights.
    """
    if model:
        yield model, weights_of(model)
        return
    with TemporaryDirectory(prefix="lectern-model-") as folder:
        write_model_folder(Path(folder), TINY, "cpu", spread=SPREAD)
        yield folder, drawn(f"tiny Llama, standard deviation {SPREAD}", SEED)


def text_with_code(number: int, num_bytes: int) -> bytes:
    """Return a text whose sentences are alike, but for one that only this text has."""
    line = "On day {} the gate of the east wing closed at noon.\n"
    days = range(100 + number, 100 + number + num_bytes // len(line))
    lines = [line.format(day) for day in days]
    lines.insert(len(lines) // 2, f"The access code of the north tower is {10007 * number}.\n")
    return "".join(lines).encode()


def answer(caller: Caller, document_id: str) -> str | None:
    """Ask for the code of a document; return the answer's text, or None for an error."""
    reply = caller.ask(document_id, QUESTION)
    return str(reply.json()["answer"]) if reply.status == 200 else None


def read_all(caller: Caller, documents: dict[int, bytes]) -> dict[int, str]:
    """Upload documents and wait until all are ready. Returns: their ids by number."""
    ids = {}
    for number, data in documents.items():
        ids[number] = str(caller.upload_patiently(f"{number}.txt", data).json()["id"])
    for document_id in ids.values():
        document = caller.wait_until_read(document_id)
        if document["status"] != "ready":
            raise SystemExit(f"A document has failed: {document['error']}")
    return ids


def answers_in_peace(model: str, documents: dict[int, bytes]) -> dict[int, str]:
    """Return the answers of a server that nothing happens to, by number."""
    with place(model) as calm:
        calm.start("serve")
        calm.wait_until_ready()
        caller = calm.caller()
        ids = read_all(caller, documents)
        answers = {number: answer(caller, document_id) for number, document_id in ids.items()}
    if None in answers.values():
        raise SystemExit("A server in peace did not answer.")
    return {number: str(text) for number, text in answers.items()}
