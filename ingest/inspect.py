"""Cheap checks at upload: what kind of file it is, and whether it can be read at all."""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from common.errors import DocumentTooLong, EmptyDocument, EncryptedPdf, UnsupportedType
from ingest import archive, encoding
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
WHOLE_TEXTS = frozenset({"txt", "markdown"})  # whose text is all of the file
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
HTML_START = re.compile(rb"<(!doctype\s+html|html[\s>])", re.IGNORECASE)
COMMENT_START, COMMENT_END = b"<!--", b"-->"
ENCRYPT_ENTRY = re.compile(rb"/Encrypt\s{0,20}(\d{1,10}\s{1,20}\d{1,5}\s{1,20}R|<<)")


@dataclass(frozen=True)
class Kind:
    """The kind of a file; `name` is also the name of the extractor that reads it."""

    name: str
    media_type: str


def inspect(path: Path, filename: str, limits: Limits) -> Kind:
    """Determine the kind of a file from its bytes and its name, and refuse what cannot be read.

    The bytes decide. A name that contradicts them is refused, because it is probably a mistake.
    This may parse the file, so files of strangers go through `inspect_quickly`, and then through
    `ingest.sandbox.inspect_limited`.

    Args:
        path: the uploaded file.
        filename: the caller's name for it, of which only the extension matters.
        limits: how much a file may unpack to, and how long its text may be.
    Returns: the kind.
    Raises: EmptyDocument, UnsupportedType, EncryptedPdf, ArchiveBomb, UnknownEncoding,
        DocumentTooLong, DocumentRejected.
    """
    kind = inspect_quickly(path, filename, limits)
    if kind is not None:
        return kind
    head, suffix = _read_head(path), _suffix(filename)
    detected = _detect_signature(head)
    if detected == "zip":
        detected = "docx" if "word/document.xml" in archive.part_names(path) else "zip archive"
    name = _agreed_kind(detected, head, suffix)
    if name == "docx":
        archive.check(path, limits)
    elif name == "pdf":
        _refuse_locked(path)
    else:
        _check_text(path, name, encoding.detect(path, html=name == "html"), limits)
    return Kind(name, MEDIA_TYPES[name])


def inspect_quickly(path: Path, filename: str, limits: Limits) -> Kind | None:
    """Inspect a file as far as that takes no parser, no guess, and no more memory than a chunk.

    Returns: what `inspect` returns; None if more is needed to tell.
    Raises: what `inspect` raises.
    """
    head, suffix = _read_head(path), _suffix(filename)
    detected = _detect_signature(head)
    if detected == "zip":
        return None
    name = _agreed_kind(detected, head, suffix)
    if name == "pdf":
        return None if _mentions_encryption(path) else Kind(name, MEDIA_TYPES[name])
    found = encoding.detect_quickly(path, html=name == "html")
    if found is None:
        return None
    _check_text(path, name, found, limits)
    return Kind(name, MEDIA_TYPES[name])


def presumed_kind(path: Path, filename: str) -> Kind:
    """Return the kind that a file has if it is what its signature and its name say.

    Raises: EmptyDocument, UnsupportedType.
    """
    head, suffix = _read_head(path), _suffix(filename)
    detected = _detect_signature(head)
    name = _agreed_kind("docx" if detected == "zip" else detected, head, suffix)
    return Kind(name, MEDIA_TYPES[name])


def _read_head(path: Path) -> bytes:
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        raise EmptyDocument("The file is empty.")
    return head


def _suffix(filename: str) -> str:
    return PurePosixPath(filename.lower()).suffix


def _agreed_kind(detected: str | None, head: bytes, suffix: str) -> str:
    """Return the name of the kind, on which the bytes and the extension must agree."""
    if detected is not None and detected not in MEDIA_TYPES:
        raise UnsupportedType(f"The file is a kind of {detected}. {SUPPORTED}")
    claimed = SUFFIXES.get(suffix)
    if claimed is None and suffix:
        raise UnsupportedType(f"Files named '*{suffix[:20]}' cannot be read. {SUPPORTED}")
    if claimed is None:
        return detected or ("html" if _starts_as_html(head) else "txt")
    if detected is None and claimed in ("pdf", "docx"):
        raise UnsupportedType(f"The file is named '*{suffix}' but is no {claimed.upper()} file.")
    if detected is not None and detected != claimed:
        raise UnsupportedType(f"The file is named '*{suffix}' but is a {detected.upper()} file.")
    return claimed


def _starts_as_html(head: bytes) -> bool:
    """Return whether the first thing after blanks and comments is the start of an HTML page."""
    rest = head.lstrip()
    while rest.startswith(COMMENT_START):
        rest = rest[len(COMMENT_START) :].partition(COMMENT_END)[2].lstrip()
    return HTML_START.match(rest) is not None


def _detect_signature(head: bytes) -> str | None:
    """Return the kind that the first bytes are typical of; None for text and unknown kinds."""
    for signature, name in SIGNATURES:
        if head.startswith(signature):
            return name
    return "pdf" if b"%PDF-" in head[:1024] and b"\x00" not in head[:16] else None


def _refuse_locked(path: Path) -> None:
    """Refuse a PDF that asks for a password; what else is wrong with it will show when it is read.

    Raises: EncryptedPdf.
    """
    import pypdf  # only the process that parses strangers' files needs it

    from ingest.extract.pdf import is_locked

    try:
        with pypdf.PdfReader(path) as reader:
            locked = is_locked(reader)
    except MemoryError:
        raise
    except Exception:  # a damaged file can make a parser raise any error
        return
    if locked:
        raise EncryptedPdf("The PDF asks for a password. Remove it and upload the file again.")


def _mentions_encryption(path: Path) -> bool:
    """Return whether a PDF seems to contain an encryption dictionary; it is not parsed for that."""
    previous = b""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            if ENCRYPT_ENTRY.search(previous + chunk):
                return True
            previous = chunk[-64:]
    return False


def _check_text(path: Path, name: str, found: encoding.Encoding, limits: Limits) -> None:
    """Decode all of a text, piece by piece, and refuse one that is blank or too long.

    Of an HTML file only the tags may be long; and characters that cleaning removes do not count.
    """
    num_chars, is_blank = 0, True
    for piece in encoding.decode_pieces(path, found):
        num_chars += len(piece) - piece.count("\r") - piece.count("\x00")
        is_blank = is_blank and not piece.replace("\x00", "").replace("\ufeff", "").strip()
    if is_blank:
        raise EmptyDocument("The file holds no text.")
    if num_chars > limits.text_chars and name in WHOLE_TEXTS:
        raise DocumentTooLong(
            f"The file holds {num_chars:,} characters; at most {limits.text_chars:,} can be read, "
            "as the text has to fit into the model's context."
        )
