"""Extraction in a child process, so that a malicious file can only harm that process."""

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
BOOTSTRAP = "import sys; sys.path.insert(0, sys.argv[1]); from ingest.child import main; main()"


def extract_limited(path: Path, kind: str, limits: Limits) -> DocumentText:
    """Extract a file's text in a new process that is limited in time and memory.

    Args:
        path: the file.
        kind: name of the extractor.
        limits: limits of the process and of the text.
    Returns: the text with the character spans of its pages.
    Raises: the errors of `ingest.extract.extract`; DocumentRejected if the process exceeded a
        limit or died.
    """
    meta, text = _call("extract", path, kind, limits)
    pages = tuple(PageSpan(*page) for page in meta["pages"])
    return DocumentText(text, pages)


def is_locked(path: Path, limits: Limits) -> bool:
    """Return whether a PDF can only be opened with a password.

    Args:
        path: the file; a PDF that cannot be opened at all counts as not locked.
    """
    try:
        return bool(_call("is_locked", path, "pdf", limits)[0]["is_locked"])
    except DocumentRejected:
        return False


def _call(action: str, path: Path, kind: str, limits: Limits) -> tuple[dict[str, Any], str]:
    """Run `ingest.child`, and return its result: a JSON object and a text."""
    task = {"action": action, "path": str(path.resolve()), "kind": kind, "limits": vars(limits)}
    try:
        process = subprocess.run(
            [sys.executable, "-I", "-c", BOOTSTRAP, str(ROOT)],
            input=json.dumps(task).encode(),
            capture_output=True,
            timeout=limits.timeout_s,
            env={"LANG": "C.UTF-8"},  # the child must not see our secrets
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DocumentRejected(
            f"The file could not be read within {limits.timeout_s:g} seconds."
        ) from error
    line, _, text = process.stdout.partition(b"\n")
    if process.returncode != 0 or not line:
        raise DocumentRejected("The file needs more memory or time than reading it may take.")
    meta = json.loads(line)
    if "error" in meta:
        raise _typed_error(meta["error"])
    return meta, text.decode()


def _typed_error(error: dict[str, str]) -> LecternError:
    """Return the error that the child has raised, as an object of the same class."""
    kind: type[LecternError] = getattr(errors, error["class"], DocumentRejected)
    return kind(error["message"])
