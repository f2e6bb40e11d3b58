"""Cheap checks at upload: what kind of file it is, and whether it can be read at all."""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from common.errors import EmptyDocument, EncryptedPdf, UnsupportedType
from ingest import archive, encoding, sandbox
from ingest.limits import Limits

HEAD_BYTES = 4096
CHUNK_BYTES = 1 << 20
SUFFIXES = {
    ".txt": "txt",
    ".text": "txt",
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".pdf": "pdf",
    ".docx": "docx",
}
MEDIA_TYPES = {
    "txt": "text/plain",
    "markdown": "text/markdown",
    "html": "text/html",
    "pdf": "application/pdf",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}
SIGNATURES = (
    (b"%PDF-", "pdf"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old Office file"),
    (b"{\\rtf", "RTF file"),
    (b"\x89PNG", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"\x1f\x8b", "gzip archive"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (b"Rar!", "RAR archive"),
    (b"\x7fELF", "program"),
    (b"%!PS", "PostScript file"),
)
SUPPORTED = "Lectern reads TXT, Markdown, HTML, PDF and DOCX files."
HTML_START = re.compile(rb"\s*(<!--.{0,2000}?-->\s*)*<(!doctype\s+html|html[\s>])", re.I | re.S)
ENCRYPT_ENTRY = re.compile(rb"/Encrypt\s{0,20}(\d{1,10}\s{1,20}\d{1,5}\s{1,20}R|<<)")


@dataclass(frozen=True)
class Kind:
    """The kind of a file; `name` is also the name of the extractor that reads it."""

    name: str
    media_type: str


def inspect(path: Path, filename: str, limits: Limits) -> Kind:
    """Determine the kind of a file from its bytes and its name, and refuse what cannot be read.

    The bytes decide. A name that contradicts them is refused, because it is probably a mistake.

    Args:
        path: the uploaded file.
        filename: the caller's name for it, of which only the extension matters.
        limits: how much a file may unpack to.
    Returns: the kind.
    Raises: EmptyDocument, UnsupportedType, EncryptedPdf, ArchiveBomb, UnknownEncoding,
        DocumentRejected.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        raise EmptyDocument("The file is empty.")
    name = _determine_kind(path, head, PurePosixPath(filename.lower()).suffix)
    _check_readable(path, name, limits)
    return Kind(name, MEDIA_TYPES[name])


def _determine_kind(path: Path, head: bytes, suffix: str) -> str:
    """Return the name of the kind, on which the bytes and the extension must agree."""
    detected = _detect_signature(head)
    if detected == "zip":
        detected = "docx" if "word/document.xml" in archive.part_names(path) else "zip archive"
    if detected is not None and detected not in MEDIA_TYPES:
        raise UnsupportedType(f"The file is a kind of {detected}. {SUPPORTED}")
    claimed = SUFFIXES.get(suffix)
    if claimed is None and suffix:
        raise UnsupportedType(f"Files named '*{suffix[:20]}' cannot be read. {SUPPORTED}")
    if claimed is None:
        return detected or ("html" if HTML_START.match(head) else "txt")
    if detected is None and claimed in ("pdf", "docx"):
        raise UnsupportedType(f"The file is named '*{suffix}' but is no {claimed.upper()} file.")
    if detected is not None and detected != claimed:
        raise UnsupportedType(f"The file is named '*{suffix}' but is a {detected.upper()} file.")
    return claimed


def _detect_signature(head: bytes) -> str | None:
    """Return the kind that the first bytes are typical of; None for text and unknown kinds."""
    for signature, name in SIGNATURES:
        if head.startswith(signature):
            return name
    return "pdf" if b"%PDF-" in head[:1024] and b"\x00" not in head[:16] else None


def _check_readable(path: Path, name: str, limits: Limits) -> None:
    if name == "docx":
        archive.check(path, limits)
    elif name == "pdf":
        if _mentions_encryption(path) and sandbox.is_locked(path, limits):
            raise EncryptedPdf("The PDF asks for a password. Remove it and upload the file again.")
    elif _is_blank(path, html=name == "html"):
        raise EmptyDocument("The file holds no text.")


def _mentions_encryption(path: Path) -> bool:
    """Return whether a PDF seems to contain an encryption dictionary; it is not parsed for that."""
    previous = b""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            if ENCRYPT_ENTRY.search(previous + chunk):
                return True
            previous = chunk[-64:]
    return False


def _is_blank(path: Path, *, html: bool) -> bool:
    """Return whether a text is only whitespace; all of it is decoded, piece by piece."""
    detected = encoding.detect(path, html=html)
    is_blank = True
    for piece in encoding.decode_pieces(path, detected):
        is_blank = is_blank and not piece.replace("\x00", "").replace("\ufeff", "").strip()
    return is_blank
