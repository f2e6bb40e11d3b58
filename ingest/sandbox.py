"""Strangers' files are parsed in a child process, so that they can only harm that process."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from common import errors
from common.errors import DocumentRejected, LecternError
from common.passages import Block, BlockKind
from ingest.inspect import Kind, presumed_kind
from ingest.limits import Limits as Limits
from ingest.page_words import words_from_json
from ingest.text import DocumentText, PageSpan

ROOT = Path(__file__).resolve().parents[1]
CHECK_S = 0.2
BOOTSTRAP = "import sys; sys.path.insert(0, sys.argv[1]); from ingest.child import main; main()"


class LimitExceeded(DocumentRejected):
    """The child process took more time or memory than it may, or died."""


def no_check() -> None:
    """Do nothing; the check of a process that nobody stops."""


def extract_limited(
    path: Path, kind: str, limits: Limits, check: Callable[[], object] = no_check
) -> DocumentText:
    """Extract a file's text in a new process that is limited in time and memory.

    Args:
        path: the file.
        kind: name of the extractor.
        limits: limits of the process and of the text.
        check: called several times a second; if it raises, the process is ended.
    Returns: the text with the character spans of its pages.
    Raises: the errors of `ingest.extract.extract`; DocumentRejected if the process exceeded a
        limit or died.
    """
    meta, text = _call({"action": "extract", "kind": kind}, path, limits, check)
    return DocumentText(
        text.decode(),
        tuple(PageSpan(*page) for page in meta["pages"]),
        tuple(Block(BlockKind(block), *rest) for block, *rest in meta["blocks"]),
        words_from_json(meta["words"]),
        meta["warnings"],
    )


def draw_limited(
    path: Path, page: int, width: int, limits: Limits, check: Callable[[], object] = no_check
) -> bytes:
    """Draw a page of a PDF in a new process that is limited in time and memory.

    Args:
        path: the file.
        page: its number, from 1.
        width: of the picture in pixels.
        limits: limits of the process and of the picture.
        check: called several times a second; if it raises, the process is ended.
    Returns: a PNG file.
    Raises: InvalidInput for a page that is not there, or a picture that is too large;
        DocumentRejected if the process exceeded a limit or died.
    """
    return _call({"action": "draw", "page": page, "width": width}, path, limits, check)[1]


def inspect_limited(
    path: Path, filename: str, limits: Limits, check: Callable[[], object] = no_check
) -> Kind:
    """Inspect a file in a new process that is limited in time and memory.

    Args:
        path: the file.
        filename: the caller's name for it.
        limits: limits of the process, and those of `ingest.inspect.inspect`.
        check: called several times a second; if it raises, the process is ended.
    Returns: the file's kind; if telling it for sure exceeds a limit, what it presumably is: whether
        the file can be read shows when it is read, within limits that are wider.
    Raises: the errors of `ingest.inspect.inspect`.
    """
    try:
        meta, _ = _call({"action": "inspect", "kind": filename}, path, limits, check)
    except LimitExceeded:
        return presumed_kind(path, filename)
    return Kind(**meta["kind"])


def _call(
    task: dict[str, Any], path: Path, limits: Limits, check: Callable[[], object]
) -> tuple[dict[str, Any], bytes]:
    """Run `ingest.child`, and return its result: a JSON object, and a text or a picture."""
    task = {**task, "path": str(path.resolve()), "limits": vars(limits)}
    with subprocess.Popen(
        [sys.executable, "-I", "-c", BOOTSTRAP, str(ROOT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"LANG": "C.UTF-8"},  # the child must not see our secrets
    ) as process:
        try:
            output = _communicate(process, json.dumps(task).encode(), limits, check)
        except BaseException:
            process.kill()
            raise
    line, _, data = output.partition(b"\n")
    if process.returncode != 0 or not line:
        raise LimitExceeded("The file needs more memory or time than reading it may take.")
    meta = json.loads(line)
    if "error" in meta:
        raise _typed_error(meta["error"])
    return meta, data


def _communicate(
    process: "subprocess.Popen[bytes]", task: bytes, limits: Limits, check: Callable[[], object]
) -> bytes:
    """Send the task and return what the process writes; whoever calls this ends the process."""
    deadline_s = time.monotonic() + limits.timeout_s
    unsent: bytes | None = task
    while True:
        check()
        remaining_s = deadline_s - time.monotonic()
        if remaining_s <= 0:
            raise LimitExceeded(f"The file could not be read within {limits.timeout_s:g} seconds.")
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(unsent, timeout=min(CHECK_S, remaining_s))[0]
        unsent = None


def _typed_error(error: dict[str, Any]) -> LecternError:
    """Return the error that the child has raised, as an object of the same class."""
    kind: type[LecternError] = getattr(errors, error["class"], DocumentRejected)
    return kind(error["message"], param=error["param"])
