"""Receive a file: it is streamed to the disk, and hashed and counted on the way."""

import fcntl
import hashlib
import os
import tempfile
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from common.errors import InvalidInput, UploadTooLarge
from storage.files import disk_errors

FIELD = b"file"
HELP = "Send the document as the field `file` of a multipart/form-data body."
NO_SPACE = "No space is left for uploads; try again later."
MAX_NAME_CHARS = 200
MAX_PARTS = 20
MAX_FIELD_BYTES = 16 * 1024  # metadata is the longest one
WRITE_BYTES = 256 * 1024  # are taken from the connection before a thread is asked to write them
PARSE_BYTES = 64 * 1024  # are parsed without a break

# Runs a blocking function with arguments on a thread.
Run = Callable[..., Awaitable[Any]]


@dataclass(frozen=True)
class Upload:
    """A received file.

    Attributes:
        path: where the file is until the request ends.
        filename: the caller's name for it, made fit to be shown.
        sha256: hash of its bytes, in hexadecimal digits.
        num_bytes: its size.
        fields: the form's other fields by name, of which none is long.
    """

    path: Path
    filename: str
    sha256: str
    num_bytes: int
    fields: Mapping[str, str]


@asynccontextmanager
async def receive_file(
    request: Request, folder: Path, max_bytes: int, run: Run = run_in_threadpool
) -> AsyncIterator[Upload]:
    """Receive the file of a multipart request into a temporary file while the block runs.

    Args:
        folder: where the temporary file is made.
        max_bytes: largest file in bytes.
        run: runs on a thread what parses the body and writes to the disk.
    Raises: UploadTooLarge as soon as more bytes have arrived, StorageFull, and InvalidInput if the
        body is not a multipart form with one field `file`.
    """
    spool = await run(_Spool, folder, max_bytes)
    try:
        multipart, received = _MultipartFile(_boundary(request)), bytearray()
        async for chunk in request.stream():
            received += chunk
            if len(received) >= WRITE_BYTES:
                await run(_take, multipart, spool, bytes(received))
                received.clear()
        await run(_take, multipart, spool, bytes(received))
        yield Upload(
            spool.path,
            multipart.filename(),
            spool.sha256.hexdigest(),
            spool.num_bytes,
            multipart.fields(),
        )
    finally:
        spool.discard()


@asynccontextmanager
async def received_bytes(
    data: bytes, filename: str, folder: Path, max_bytes: int, run: Run = run_in_threadpool
) -> AsyncIterator[Upload]:
    """Put bytes that have been received into a temporary file while the block runs.

    Raises: as `receive_file`.
    """
    spool = await run(_Spool, folder, max_bytes)
    try:
        await run(spool.write, data)
        name = display_name(filename)
        yield Upload(spool.path, name, spool.sha256.hexdigest(), spool.num_bytes, {})
    finally:
        spool.discard()


def _take(multipart: "_MultipartFile", spool: "_Spool", received: bytes) -> None:
    """Parse a part of the body, and write what belongs to the file."""
    for start in range(0, len(received), PARSE_BYTES):
        spool.write(multipart.feed(received[start : start + PARSE_BYTES]))


def display_name(filename: str) -> str:
    """Make a file name fit to be shown, without folders, control and invisible characters."""
    name = filename.replace("\\", "/").rpartition("/")[2]
    shown = "".join(char for char in name if _is_shown(char)).strip()
    if len(shown) > MAX_NAME_CHARS:
        stem, dot, suffix = shown.rpartition(".")
        shown = (stem or suffix)[: MAX_NAME_CHARS - 20] + dot + suffix[:19]
    return shown or "document"


def remove_leftovers(folder: Path) -> int:
    """Remove the temporary files of processes that were killed, whose locks nobody holds any more.

    Args:
        folder: where temporary files are made.
    Returns: how many were removed.
    """
    num_removed = 0
    for path in folder.glob("upload-*"):
        with suppress(FileNotFoundError, BlockingIOError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
            num_removed += 1
    return num_removed


def _is_shown(char: str) -> bool:
    category = unicodedata.category(char)
    return not category.startswith("C") and category not in ("Zl", "Zp")


class _Spool:
    """The temporary file, locked while it is in use, with its hash and its size."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.sha256 = hashlib.sha256()
        self.num_bytes = 0
        self._max_bytes = max_bytes
        folder.mkdir(parents=True, exist_ok=True)
        self._file = _open_locked(folder)
        self.path = Path(self._file.name)

    def write(self, data: bytes) -> None:
        self.num_bytes += len(data)
        if self.num_bytes > self._max_bytes:
            raise UploadTooLarge(
                f"The file is larger than the {self._max_bytes} bytes that this server takes.",
                param="file",
            )
        with disk_errors(NO_SPACE):
            _write(self._file, data)
        self.sha256.update(data)

    def discard(self) -> None:
        try:
            self._file.close()
        except OSError:  # the disk is full, and the bytes that were not written are not needed
            self._file.close()
        self.path.unlink(missing_ok=True)


def _open_locked(folder: Path) -> IO[bytes]:
    while True:
        file = tempfile.NamedTemporaryFile(  # noqa: SIM115 closed by the spool
            dir=folder, prefix="upload-", delete=False
        )
        fcntl.flock(file, fcntl.LOCK_EX)
        # Another process may have removed the file between its creation and its lock.
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()


def _write(file: IO[bytes], data: bytes) -> None:
    file.write(data)
    file.flush()


class _MultipartFile:
    """Parses a multipart body, and returns the bytes of its one file."""

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
        self._num_parts = 0
        self._is_inside_file = self._is_complete = False
        self._content = bytearray()
        self._field_name = b""
        self._fields: dict[bytes, bytearray] = {}

    def feed(self, chunk: bytes) -> bytes:
        try:
            if chunk:
                self._parser.write(chunk)
        except FormParserError as error:
            raise InvalidInput("The multipart body is malformed.") from error
        content, self._content = bytes(self._content), bytearray()
        return content

    def filename(self) -> str:
        if not self._is_complete:
            raise InvalidInput("The multipart body ends too early.")
        if len(self._names) != 1:
            raise InvalidInput(HELP, param="file")
        return display_name(self._names[0].decode("utf-8", errors="replace"))

    def fields(self) -> dict[str, str]:
        return {
            name.decode("utf-8", errors="replace"): value.decode("utf-8", errors="replace")
            for name, value in self._fields.items()
        }

    def _begin(self) -> None:
        self._num_parts += 1
        if self._num_parts > MAX_PARTS:
            raise InvalidInput(f"The body has more than {MAX_PARTS} parts. {HELP}")
        self._disposition = b""
        self._is_inside_file = False

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
        self._is_inside_file = options.get(b"name") == FIELD and b"filename" in options
        self._field_name = b""
        if self._is_inside_file:
            self._names.append(options[b"filename"])
        elif b"filename" not in options:
            self._field_name = options.get(b"name", b"")[:MAX_NAME_CHARS]

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._is_inside_file and len(self._names) == 1:
            self._content += data[start:end]
        elif self._field_name:
            value = self._fields.setdefault(self._field_name, bytearray())
            value += data[start:end]
            if len(value) > MAX_FIELD_BYTES:
                raise InvalidInput(f"A field of the form is longer than {MAX_FIELD_BYTES} bytes.")

    def _end(self) -> None:
        self._is_complete = True


def _boundary(request: Request) -> bytes:
    media_type, options = parse_options_header(request.headers.get("content-type"))
    boundary = options.get(b"boundary")
    if media_type != b"multipart/form-data" or not boundary:
        raise InvalidInput(HELP, param="file")
    return boundary
