"""A real server in a process of its own, and what can be seen of it from outside."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from typing import IO, Any
from urllib.parse import urlsplit

import psutil

from engine.model.fingerprint import weights_fingerprint
from reader import WEIGHTS

ROOT = Path(__file__).resolve().parents[2]
START_S = 300.0
STOP_S = 60.0
SAMPLE_S = 0.1
BOUNDARY = "bench-boundary"
PASSED_ON = (  # of this program's environment to the server: threads, libraries, compilers' caches
    "OMP_NUM_THREADS",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "PYTHONPYCACHEPREFIX",
)


@dataclass(frozen=True)
class Reply:
    """A response: its status, its headers with small letters, and its body."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body, which is JSON."""
        return json.loads(self.body)


class Caller:
    """A client on one kept connection, which does nothing but to send and to receive.

    Args:
        url: of the server.
        key: an API key; empty for none.
        source: the address to call from, one of this machine's.
    """

    def __init__(self, url: str, key: str = "", source: str = "", timeout_s: float = 120.0) -> None:
        address = urlsplit(url)
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._connection = http.client.HTTPConnection(
            str(address.hostname),
            address.port,
            timeout=timeout_s,
            source_address=(source, 0) if source else None,
        )

    def call(
        self,
        method: str,
        path: str,
        body: bytes | tuple[bytes, ...] = b"",
        media_type: str = "application/json",
    ) -> Reply:
        """Send a request and return the response. Raises: OSError, http.client.HTTPException.

        A kept connection that the server has closed meanwhile is opened anew.

        Args:
            body: or its parts, which are not copied into one, as that would stop all threads here.
        """
        headers = self._headers | ({"Content-Type": media_type} if body else {})
        if isinstance(body, tuple):
            headers["Content-Length"] = str(sum(map(len, body)))
        if (kept := self._connection.sock) is not None and select([kept], [], [], 0)[0]:
            self._connection.close()  # there is nothing to read but its end
        try:
            self._connection.request(method, path, body or None, headers)
            response = self._connection.getresponse()
            data = response.read()
        except BaseException:
            self._connection.close()  # the next call opens another one
            raise
        named = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, named, data)

    def call_json(self, method: str, path: str, body: Any = None) -> Reply:
        """Send a request whose body is JSON, or that has none, and return the response."""
        return self.call(method, path, b"" if body is None else json.dumps(body).encode())

    def stream_until(self, method: str, path: str, body: bytes, text: bytes) -> tuple[int, float]:
        """Send a request and read its response until a text has come, or to its end.

        Returns: the status, and the seconds after which a refused request may be made again.
        """
        headers = self._headers | {"Content-Type": "application/json"}
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        while (line := response.readline()) and text not in line:
            pass
        retry_s = float(response.headers.get("retry-after", "1"))
        self._connection.close()
        return response.status, retry_s

    def ask(self, document_id: str, question: str, max_tokens: int = 8) -> Reply:
        """Ask a question about a document."""
        body = json.dumps({"question": question, "max_tokens": max_tokens}).encode()
        return self.call("POST", f"/documents/{document_id}/ask", body)

    def upload(self, name: str, data: bytes, path: str = "/documents") -> Reply:
        """Upload a file, once."""
        disposition = f'form-data; name="file"; filename="{name}"'
        head = f"--{BOUNDARY}\r\nContent-Disposition: {disposition}\r\n\r\n".encode()
        body = (head, data, f"\r\n--{BOUNDARY}--\r\n".encode())
        return self.call("POST", path, body, f"multipart/form-data; boundary={BOUNDARY}")

    def upload_patiently(self, name: str, data: bytes, timeout_s: float = 600.0) -> Reply:
        """Upload a file, and again as often as the server asks for patience."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            reply = self.upload(name, data)
            if reply.status not in (429, 503) or time.monotonic() > deadline_s:
                return reply
            time.sleep(float(reply.headers.get("retry-after", "1")))

    def wait_until_read(self, document_id: str, timeout_s: float = 600.0) -> dict[str, Any]:
        """Wait until a document is ready or has failed. Raises: TimeoutError."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            document: dict[str, Any] = self.call("GET", f"/documents/{document_id}").json()
            if document["status"] in ("ready", "failed"):
                return document
            time.sleep(0.2)
        raise TimeoutError(f"the document was not read within {timeout_s:g} s")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@dataclass
class Server:
    """A running server.

    Attributes:
        url, key: its address, and the key of its first start.
        folder: its data folder's parent, which also has its log.
    """

    url: str
    key: str
    folder: Path
    environment: dict[str, str]
    process: "subprocess.Popen[str]"
    memory: "MemorySampler" = field(init=False)

    def __post_init__(self) -> None:
        self.memory = MemorySampler(self.process.pid)

    def caller(self, key: str | None = None, source: str = "") -> Caller:
        """Return a client, with the first key unless another one is given."""
        return Caller(self.url, self.key if key is None else key, source)

    def make_key(self, name: str) -> str:
        """Make another API key, beside the running server."""
        command = [sys.executable, "-m", "cli.main", "key", "create", name]
        made = subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=True
        )
        return made.stdout.strip()

    def num_log_bytes(self) -> int:
        """Return how long the server's log is, in bytes."""
        return (self.folder / "server.log").stat().st_size


class MemorySampler:
    """Watches the resident memory of a process and its children, summed, in bytes."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._stop = threading.Event()
        self.peak = self.now = self._measure()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def begin(self) -> int:
        """Forget the peak so far; return what is used now."""
        self.peak = self.now = self._measure()
        return self.now

    def stop(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            self.now = self._measure()
            self.peak = max(self.peak, self.now)

    def _measure(self) -> int:
        total = 0
        try:
            for process in (self._process, *self._process.children(recursive=True)):
                try:
                    total += int(process.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue
        except psutil.NoSuchProcess:
            pass
        return total


@contextmanager
def serving(model: str = "", root: Path = ROOT, /, **settings: str) -> Iterator[Server]:
    """Run `lectern serve` in a fresh folder while the block runs.

    Args:
        model: folder of a model; empty for the bundled reader.
        root: the checkout whose server it is.
        settings: further environment variables.
    Raises: RuntimeError with the log if the server does not start.
    """
    with TemporaryDirectory(prefix="lectern-faults-") as name:
        folder = Path(name)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": name,
            "PYTHONPATH": str(root),
            "HF_HUB_OFFLINE": "1",
            "LECTERN_DATA_DIR": str(folder / "data"),
            "LECTERN_SERVER__PORT": "0",
            "LECTERN_STORED_ANSWER_HOURS": "0",  # every question is worked on
            **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
            **({"LECTERN_MODEL": model} if model else {}),
            **settings,
        }
        with (folder / "server.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "cli.main", "serve"],
                cwd=root,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        try:
            url, key = _read_banner(process, folder)
            server = Server(url, key, folder, environment, process)
            _wait_until_ready(server)
            yield server
            server.memory.stop()
        finally:
            _stop(process)


def weights_of(model: str) -> str:
    """Return the fingerprint of the weights that a server serves; see `serving`."""
    return weights_fingerprint(Path(model) if model else WEIGHTS)


def _read_banner(process: "subprocess.Popen[str]", folder: Path) -> tuple[str, str]:
    key, stdout = "", process.stdout
    assert stdout is not None
    for line in stdout:
        key = "".join(re.findall(r"lk_\S+", line)) or key
        if found := re.search(r"serves on (http://\S+)", line):
            threading.Thread(target=_discard, args=(stdout,), daemon=True).start()
            return found[1], key
    raise RuntimeError((folder / "server.log").read_text())


def _discard(stdout: IO[str]) -> None:
    """Read what nobody else reads, so that the process never waits for a reader."""
    with stdout:
        stdout.read()


def _wait_until_ready(server: Server) -> None:
    deadline_s = time.monotonic() + START_S
    with closing(server.caller("")) as caller:
        while time.monotonic() < deadline_s:
            try:
                if caller.call("GET", "/readyz").status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
    raise RuntimeError("the server did not become ready")


def _stop(process: "subprocess.Popen[str]") -> None:
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
