"""Extraction in a child process, so that a hostile file costs one process, not the server."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from common import errors
from common.errors import DocumentRejected, LecternError
from ingest.limits import Limits as Limits
from ingest.text import DocumentText, PageSpan

ROOT = Path(__file__).resolve().parents[1]
BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from ingest.child import main; main()"


def extract_limited(path: Path, kind: str, limits: Limits) -> DocumentText:
    """As `ingest.extract.extract`, in a fresh process bound in time and memory.

    Raises: the same typed errors; DocumentRejected if the process ran into a limit or died.
    """
    meta, text = _call("extract", path, kind, limits)
    pages = tuple(PageSpan(*page) for page in meta["pages"])
    return DocumentText(text, pages)


def locked(path: Path, limits: Limits) -> bool:
    """Whether a PDF needs a password. A PDF that cannot even be opened counts as not locked."""
    try:
        return bool(_call("locked", path, "pdf", limits)[0]["locked"])
    except DocumentRejected:
        return False


def _call(action: str, path: Path, kind: str, limits: Limits) -> tuple[dict[str, Any], str]:
    """Run `ingest.child` and read its answer: a line of JSON, then the text."""
    task = {"action": action, "path": str(path.resolve()), "kind": kind, "limits": vars(limits)}
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", BOOT, str(ROOT)],
            input=json.dumps(task).encode(),
            capture_output=True,
            timeout=limits.timeout_s,
            env={"LANG": "C.UTF-8"},  # no secrets of ours
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DocumentRejected(
            f"The file could not be read within {limits.timeout_s:g} seconds."
        ) from error
    line, _, text = done.stdout.partition(b"\n")
    if done.returncode != 0 or not line:
        raise DocumentRejected("The file needs more memory or time than reading it may take.")
    meta = json.loads(line)
    if "error" in meta:
        raise _typed(meta["error"])
    return meta, text.decode()


def _typed(error: dict[str, str]) -> LecternError:
    """The error that the child raised, as the same class."""
    kind: type[LecternError] = getattr(errors, error["class"], DocumentRejected)
    return kind(error["message"])
