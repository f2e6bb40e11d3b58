"""The process that reads untrusted files; it limits itself before it opens one."""

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

from common.errors import LecternError
from ingest.limits import Limits

NICENESS = 15


def main() -> None:
    """Do the task that standard input describes, and write the result to standard output.

    The result is a line of JSON, followed by the extracted text in UTF-8. An expected error is a
    result too. If the process ends without a result, it has exceeded a limit.
    """
    task = json.load(sys.stdin)
    limits = Limits(**task["limits"])
    _confine(limits)
    try:
        meta, text = _run(task["action"], Path(task["path"]), task["kind"], limits)
    except LecternError as error:
        meta, text = {"error": {"class": type(error).__name__, "message": error.message}}, ""
    sys.stdout.buffer.write(json.dumps(meta).encode() + b"\n" + text.encode())
    sys.stdout.buffer.flush()


def _confine(limits: Limits) -> None:
    """Limit memory and processor time; forbid to write files, start programs or use the network.

    Whatever else this machine has to do comes first.
    """
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
    cpu_s = int(limits.timeout_s) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.addaudithook(_forbid)


def _forbid(event: str, _details: tuple[Any, ...]) -> None:
    """Raise an error for events that the parser of a document has no reason for."""
    if event in ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system"):
        raise PermissionError(f"not allowed here: {event}")


def _run(action: str, path: Path, kind: str, limits: Limits) -> tuple[dict[str, Any], str]:
    if action == "inspect":
        from ingest.inspect import inspect

        return {"kind": vars(inspect(path, kind, limits))}, ""
    from ingest.extract import extract

    document = extract(path, kind, limits)
    pages = [(page.number, page.start, page.end) for page in document.pages]
    return {"pages": pages, "warnings": dict(document.warnings)}, document.text
