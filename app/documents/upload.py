"""Receiving a file: streamed to disk, hashed and counted on the way, never held in memory."""

import errno
import fcntl
import hashlib
import os
import tempfile
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from common.errors import InvalidInput, StorageFull, UploadTooLarge

FIELD = b"file"
HELP = "Send the document as the field `file` of a multipart/form-data body."
MAX_NAME_CHARS = 200
WRITE_BYTES = 1024 * 1024
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@dataclass(frozen=True)
class Upload:
    """A received file; `path` vanishes with the request, `filename` is a label for people."""

    path: Path
    filename: str
    sha256: str
    num_bytes: int


@asynccontextmanager
async def receive_file(request: Request, folder: Path, max_bytes: int) -> AsyncIterator[Upload]:
    """Stream the request's file into a temporary file in `folder`; it is removed in any case.

    Raises: UploadTooLarge as soon as `max_bytes` are passed, StorageFull, and InvalidInput if the
        body is no multipart form with one field `file`.
    """
    spool = await run_in_threadpool(_Spool, folder, max_bytes)
    try:
        parts = _Parts(_boundary(request))
        async for chunk in request.stream():
            spool.buffer += parts.feed(chunk)
            if len(spool.buffer) >= WRITE_BYTES:
                await run_in_threadpool(spool.flush)
            spool.check()
        await run_in_threadpool(spool.flush)
        yield Upload(spool.path, parts.filename(), spool.sha256.hexdigest(), spool.num_bytes)
    finally:
        spool.discard()


def label(filename: str) -> str:
    """Make a caller's file name fit to be shown: no folders, controls, or marks that reorder it."""
    name = filename.replace("\\", "/").rpartition("/")[2]
    shown = "".join(char for char in name if _is_shown(char)).strip()
    if len(shown) > MAX_NAME_CHARS:
        stem, dot, suffix = shown.rpartition(".")
        shown = (stem or suffix)[: MAX_NAME_CHARS - 20] + dot + suffix[:19]
    return shown or "document"


def sweep(folder: Path) -> None:
    """Remove what a killed process left behind: nobody holds its lock any more."""
    for path in folder.glob("upload-*"):
        with suppress(FileNotFoundError, BlockingIOError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def _is_shown(char: str) -> bool:
    category = unicodedata.category(char)
    return not category.startswith("C") and category not in ("Zl", "Zp")


class _Spool:
    """The temporary file, locked while it is in use, its hash and its size."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.buffer = bytearray()
        self.sha256 = hashlib.sha256()
        self.num_bytes = 0
        self._max_bytes = max_bytes
        folder.mkdir(parents=True, exist_ok=True)
        self._file = _open_locked(folder)
        self.path = Path(self._file.name)

    def check(self) -> None:
        if self.num_bytes + len(self.buffer) > self._max_bytes:
            raise UploadTooLarge(
                f"The file is larger than the {self._max_bytes} bytes that this server takes.",
                param="file",
            )

    def flush(self) -> None:
        try:
            _write(self._file, self.buffer)
        except OSError as error:
            if error.errno in NO_SPACE:
                raise StorageFull("No space is left for uploads; try again later.") from error
            raise
        self.sha256.update(self.buffer)
        self.num_bytes += len(self.buffer)
        self.buffer.clear()

    def discard(self) -> None:
        try:
            self._file.close()
        except OSError:  # the disk is full: unwritten bytes are of no use any more
            self._file.close()
        self.path.unlink(missing_ok=True)


def _open_locked(folder: Path) -> IO[bytes]:
    while True:
        file = tempfile.NamedTemporaryFile(  # noqa: SIM115 the spool closes it
            dir=folder, prefix="upload-", delete=False
        )
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:  # not swept between its making and its lock
            return file
        file.close()


def _write(file: IO[bytes], data: bytearray) -> None:
    file.write(data)
    file.flush()


class _Parts:
    """Takes multipart bytes and gives back those of the one file."""

    def __init__(self, boundary: bytes) -> None:
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": self._header_field,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._data,
                "on_end": self._end,
            },
        )
        self._field = self._value = self._disposition = b""
        self._names: list[bytes] = []
        self._inside = self._complete = False
        self._found = bytearray()

    def feed(self, chunk: bytes) -> bytes:
        try:
            if chunk:
                self._parser.write(chunk)
        except FormParserError as error:
            raise InvalidInput("The multipart body is malformed.") from error
        found, self._found = bytes(self._found), bytearray()
        return found

    def filename(self) -> str:
        if not self._complete:
            raise InvalidInput("The multipart body ends too early.")
        if len(self._names) != 1:
            raise InvalidInput(HELP, param="file")
        return label(self._names[0].decode("utf-8", errors="replace"))

    def _begin(self) -> None:
        self._disposition = b""
        self._inside = False

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        if self._field.lower() == b"content-disposition":
            self._disposition = self._value
        self._field = self._value = b""

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._inside = options.get(b"name") == FIELD and b"filename" in options
        if self._inside:
            self._names.append(options[b"filename"])

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._inside and len(self._names) == 1:
            self._found += data[start:end]

    def _end(self) -> None:
        self._complete = True


def _boundary(request: Request) -> bytes:
    kind, options = parse_options_header(request.headers.get("content-type"))
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise InvalidInput(HELP, param="file")
    return boundary
