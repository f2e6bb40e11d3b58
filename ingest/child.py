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

    The result is a line of JSON, followed by the extracted text in UTF-8, or by a picture. An
    expected error is a result too. If the process ends without a result, it has exceeded a limit.
    """
    task = json.load(sys.stdin)
    limits = Limits(**task["limits"])
    _confine(limits)
    try:
        meta, data = _run(task, Path(task["path"]), limits)
    except LecternError as error:
        told = {"class": type(error).__name__, "message": error.message, "param": error.param}
        meta, data = {"error": told}, b""
    sys.stdout.buffer.write(json.dumps(meta, separators=(",", ":")).encode() + b"\n" + data)
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


def _run(task: dict[str, Any], path: Path, limits: Limits) -> tuple[dict[str, Any], bytes]:
    if task["action"] == "inspect":
        from ingest.inspect import inspect

        return {"kind": vars(inspect(path, task["kind"], limits))}, b""
    if task["action"] == "draw":
        from ingest.pdf_pages import open_pdf

        with open_pdf(path) as pdf:
            return {}, pdf.draw(task["page"], task["width"], limits.pixels)
    from ingest.extract import extract
    from ingest.page_words import words_to_json

    document = extract(path, task["kind"], limits)
    meta = {
        "pages": [(page.number, page.start, page.end) for page in document.pages],
        "blocks": [(one.kind, one.start, one.end, one.level) for one in document.blocks],
        "words": words_to_json(document.words),
        "warnings": dict(document.warnings),
    }
    return meta, document.text.encode()
