"""Zip archives from strangers: what they really unpack to, counted before anything reads them."""

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
    """Names in the archive's directory. Raises: DocumentRejected if it is damaged."""
    try:
        with ZipFile(path) as archive:
            return frozenset(archive.namelist())
    except (BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise _damaged() from error


def check(path: Path, limits: Limits) -> None:
    """Unpack every part into nothing and count; sizes that the archive declares are not believed.

    Raises: ArchiveBomb past a limit; DocumentRejected if the archive is damaged, encrypted or holds
    XML with a document type (Office files never do; it is how entity attacks begin).
    """
    try:
        with ZipFile(path) as archive, path.open("rb") as file:
            infos = archive.infolist()
            if len(infos) > limits.entries:
                raise ArchiveBomb(f"The file holds more than {limits.entries} parts.")
            _check_parts(infos, file, _allowance(path, limits))
    except (BadZipFile, struct.error, zlib.error, OSError, ValueError) as error:
        raise _damaged() from error


def _allowance(path: Path, limits: Limits) -> int:
    """Bytes that this archive may unpack to."""
    by_ratio = max(limits.ratio_floor_bytes, limits.ratio * path.stat().st_size)
    return min(limits.unpacked_bytes, by_ratio)


def _check_parts(infos: list[ZipInfo], file: BinaryIO, allowance: int) -> None:
    for info in infos:
        if info.flag_bits & 1:
            raise DocumentRejected("The file is protected by a password.")
        real = _unpacked(info, file, allowance)
        if real > min(info.file_size, allowance):
            raise ArchiveBomb("The file unpacks to far more than its size allows.")
        allowance -= real


def _unpacked(info: ZipInfo, file: BinaryIO, allowance: int) -> int:
    """Count the bytes that one part really unpacks to, stopping just past `allowance`."""
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise DocumentRejected("The file uses a compression method that Office files do not.")
    file.seek(info.header_offset)
    header = file.read(LOCAL_HEADER_BYTES)
    name_bytes, extra_bytes = struct.unpack("<HH", header[26:30])
    file.seek(name_bytes + extra_bytes, 1)
    inflate = zlib.decompressobj(-zlib.MAX_WBITS) if info.compress_type == ZIP_DEFLATED else None
    left, total = info.compress_size, 0
    is_xml = info.filename.lower().endswith((".xml", ".rels"))
    while left > 0 and total <= allowance and (packed := file.read(min(CHUNK_BYTES, left))):
        left -= len(packed)
        while packed and total <= allowance:
            data = inflate.decompress(packed, CHUNK_BYTES) if inflate else packed
            packed = inflate.unconsumed_tail if inflate else b""
            if is_xml and total < CHUNK_BYTES:  # a document type stands before the first element
                _refuse_doctype(data)
            total += len(data)
    return total


def _refuse_doctype(data: bytes) -> None:
    if any(mark in data for mark in XML_DOCTYPES):
        raise DocumentRejected("The file holds XML with a document type, which is not allowed.")


def _damaged() -> DocumentRejected:
    return DocumentRejected("The file is damaged: its archive cannot be opened.")
