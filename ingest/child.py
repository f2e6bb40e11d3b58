"""The process that reads strangers' files: it limits itself before it looks at any byte."""

import json
import resource
import sys
from pathlib import Path
from typing import Any

from common.errors import DocumentRejected, LecternError
from ingest.limits import Limits


def main() -> None:
    """Read a task from standard input, write a line of JSON and then the text to standard output.

    An error of ours is an answer. A process that dies without an answer ran into a limit.
    """
    task = json.load(sys.stdin)
    limits = Limits(**task["limits"])
    _confine(limits)
    try:
        meta, text = _run(task["action"], Path(task["path"]), task["kind"], limits)
    except LecternError as error:
        meta, text = {"error": {"class": type(error).__name__, "message": error.message}}, ""
    except MemoryError:
        failure = DocumentRejected("Reading the file takes more memory than one file may take.")
        meta, text = {"error": {"class": "DocumentRejected", "message": failure.message}}, ""
    sys.stdout.buffer.write(json.dumps(meta).encode() + b"\n" + text.encode())
    sys.stdout.buffer.flush()


def _confine(limits: Limits) -> None:
    """Bound memory and processor time, forbid writing files, starting programs and the network."""
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
    cpu_s = int(limits.timeout_s) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.addaudithook(_refuse)


def _refuse(event: str, _details: tuple[Any, ...]) -> None:
    """Parsers of documents have no business with sockets or programs."""
    if event in ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system"):
        raise PermissionError(f"not allowed here: {event}")


def _run(action: str, path: Path, kind: str, limits: Limits) -> tuple[dict[str, Any], str]:
    if action == "locked":
        return {"locked": _locked(path)}, ""
    from ingest.extract import extract

    document = extract(path, kind, limits)
    pages = [(page.number, page.start, page.end) for page in document.pages]
    return {"pages": pages}, document.text


def _locked(path: Path) -> bool:
    import pypdf

    from ingest.extract.pdf import locked

    try:
        with pypdf.PdfReader(path) as reader:
            return locked(reader)
    except Exception as error:  # what is broken is told when the document is read
        raise DocumentRejected("The PDF is damaged and cannot be opened.") from error
