"""Cheap checks at upload: what kind of file is this, and is it worth a worker's time?"""

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
    """What a file is: `name` is the extractor that reads it."""

    name: str
    media_type: str


def inspect(path: Path, filename: str, limits: Limits) -> Kind:
    """Tell what a file is from its bytes and its name, and refuse what cannot be read.

    The bytes decide; a name that contradicts them is refused, so that nobody is surprised later.

    Args:
        path: where the uploaded bytes are.
        filename: the caller's name for them; only its extension is looked at.
    Raises: EmptyDocument, UnsupportedType, EncryptedPdf, ArchiveBomb, UnknownEncoding,
        DocumentRejected.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        raise EmptyDocument("The file is empty.")
    name = _kind(path, head, PurePosixPath(filename.lower()).suffix)
    _check(path, name, limits)
    return Kind(name, MEDIA_TYPES[name])


def _kind(path: Path, head: bytes, suffix: str) -> str:
    """Join what the bytes say with what the name says."""
    signed = _signature(head)
    if signed == "zip":
        signed = "docx" if "word/document.xml" in archive.part_names(path) else "zip archive"
    if signed is not None and signed not in MEDIA_TYPES:
        raise UnsupportedType(f"The file is a kind of {signed}. {SUPPORTED}")
    claimed = SUFFIXES.get(suffix)
    if claimed is None and suffix:
        raise UnsupportedType(f"Files named '*{suffix[:20]}' cannot be read. {SUPPORTED}")
    if claimed is None:
        return signed or ("html" if HTML_START.match(head) else "txt")
    if signed is None and claimed in ("pdf", "docx"):
        raise UnsupportedType(f"The file is named '*{suffix}' but is no {claimed.upper()} file.")
    if signed is not None and signed != claimed:
        raise UnsupportedType(f"The file is named '*{suffix}' but is a {signed.upper()} file.")
    return claimed


def _signature(head: bytes) -> str | None:
    """What the first bytes say, or None for text and the unknown."""
    for mark, name in SIGNATURES:
        if head.startswith(mark):
            return name
    return "pdf" if b"%PDF-" in head[:1024] and b"\x00" not in head[:16] else None


def _check(path: Path, name: str, limits: Limits) -> None:
    if name == "docx":
        archive.check(path, limits)
    elif name == "pdf":
        if _names_encryption(path) and sandbox.locked(path, limits):
            raise EncryptedPdf("The PDF asks for a password. Remove it and upload the file again.")
    elif _blank(path, html=name == "html"):
        raise EmptyDocument("The file holds no text.")


def _names_encryption(path: Path) -> bool:
    """Whether an encryption dictionary is named anywhere; a first look, without parsing."""
    before = b""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            if ENCRYPT_ENTRY.search(before + chunk):
                return True
            before = chunk[-64:]
    return False


def _blank(path: Path, *, html: bool) -> bool:
    """Whether the text is only whitespace; decodes all of it, a piece at a time."""
    found = encoding.detect(path, html=html)
    blank = True
    for piece in encoding.pieces(path, found):
        blank = blank and not piece.replace("\x00", "").replace("\ufeff", "").strip()
    return blank
