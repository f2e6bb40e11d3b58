"""Check untrusted zip archives before anything reads them, by counting what they unpack to."""

import struct
import zlib
from pathlib import Path
from typing import BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from common.errors import ArchiveBomb, DocumentRejected
from ingest.limits import Limits

CHUNK_BYTES = 1 << 16
LOCAL_HEADER_BYTES = 30
XML_DOCTYPES = tuple("<!DOCTYPE".encode(name) for name in ("ascii", "utf-16-le", "utf-16-be"))


def part_names(path: Path) -> frozenset[str]:
    """Return the names of an archive's parts.

    Args:
        path: a zip file.
    Raises: DocumentRejected if the archive is damaged.
    """
    try:
        with ZipFile(path) as archive:
            return frozenset(archive.namelist())
    except (BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise _damaged_error() from error


def check(path: Path, limits: Limits) -> None:
    """Unpack every part without keeping it, and count the bytes, whatever sizes are declared.

    Args:
        path: a zip file.
        limits: how many parts there may be, and to how many bytes they may unpack.
    Raises: ArchiveBomb if a limit is exceeded; DocumentRejected if the archive is damaged or
        encrypted, or contains XML with a document type. Office files contain none, and attacks
        with XML entities need one.
    """
    try:
        with ZipFile(path) as archive, path.open("rb") as file:
            infos = archive.infolist()
            if len(infos) > limits.entries:
                raise ArchiveBomb(f"The file holds more than {limits.entries} parts.")
            _check_parts(infos, file, unpacked_bytes_limit(path, limits))
    except (BadZipFile, struct.error, zlib.error, OSError, ValueError) as error:
        raise _damaged_error() from error


def unpacked_bytes_limit(path: Path, limits: Limits) -> int:
    """Return the bytes that the file at `path` may unpack to, which depends on its size."""
    by_ratio = max(limits.ratio_floor_bytes, limits.ratio * path.stat().st_size)
    return min(limits.unpacked_bytes, by_ratio)


def _check_parts(infos: list[ZipInfo], file: BinaryIO, max_bytes: int) -> None:
    for info in infos:
        if info.flag_bits & 1:
            raise DocumentRejected("The file is protected by a password.")
        num_bytes = _count_unpacked_bytes(info, file, max_bytes)
        if num_bytes > min(info.file_size, max_bytes):
            raise ArchiveBomb("The file unpacks to far more than its size allows.")
        max_bytes -= num_bytes


def _count_unpacked_bytes(info: ZipInfo, file: BinaryIO, max_bytes: int) -> int:
    """Count the bytes that one part unpacks to, and stop when there are more than `max_bytes`."""
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise DocumentRejected("The file uses a compression method that Office files do not.")
    file.seek(info.header_offset)
    header = file.read(LOCAL_HEADER_BYTES)
    name_bytes, extra_bytes = struct.unpack("<HH", header[26:30])
    file.seek(name_bytes + extra_bytes, 1)
    inflate = zlib.decompressobj(-zlib.MAX_WBITS) if info.compress_type == ZIP_DEFLATED else None
    remaining, total = info.compress_size, 0
    is_xml = info.filename.lower().endswith((".xml", ".rels"))
    while (
        remaining > 0 and total <= max_bytes and (packed := file.read(min(CHUNK_BYTES, remaining)))
    ):
        remaining -= len(packed)
        while packed and total <= max_bytes:
            data = inflate.decompress(packed, CHUNK_BYTES) if inflate else packed
            packed = inflate.unconsumed_tail if inflate else b""
            if is_xml and total < CHUNK_BYTES:  # document types come before elements
                _refuse_doctype(data)
            total += len(data)
    return total


def _refuse_doctype(data: bytes) -> None:
    if any(mark in data for mark in XML_DOCTYPES):
        raise DocumentRejected("The file holds XML with a document type, which is not allowed.")


def _damaged_error() -> DocumentRejected:
    return DocumentRejected("The file is damaged: its archive cannot be opened.")
