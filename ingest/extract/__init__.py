"""Extraction in this process; untrusted files must go through `ingest.sandbox` instead."""

from dataclasses import replace
from pathlib import Path

from common import plugins
from common.errors import DocumentRejected, EmptyDocument, LecternError
from ingest import extract as extractors
from ingest.extract.base import Extractor
from ingest.limits import Limits, too_long_error
from ingest.text import DocumentText
from ingest.warnings import find_warnings


def extract(path: Path, kind: str, limits: Limits) -> DocumentText:
    """Extract the text of a file.

    Args:
        path: the file.
        kind: name of the extractor, from `ingest.inspect`.
        limits: how much the file may unpack to, and how long its text may be.
    Returns: the text with the character spans of its pages.
    Raises: DocumentRejected or one of its subclasses (EmptyDocument, EncryptedPdf, ArchiveBomb,
        UnknownEncoding, UnsupportedType); UnknownPlugin for a kind without an extractor.
    """
    extractor: Extractor = plugins.build(extractors, kind, limits)
    try:
        document = extractor.extract(path)
    except (LecternError, MemoryError):
        raise
    except Exception as error:  # a damaged file can make a parser raise any error
        raise DocumentRejected(f"The file is damaged and cannot be read as {kind}.") from error
    _check_text(document, kind, limits)
    return replace(document, warnings={**document.warnings, **find_warnings(document)})


def _check_text(document: DocumentText, kind: str, limits: Limits) -> None:
    if len(document.text) > limits.text_chars:
        raise too_long_error(len(document.text), limits)
    if not document.text.strip().strip("\ufeff"):
        hint = " Scanned pages need text recognition first." if kind == "pdf" else ""
        raise EmptyDocument(f"The file holds no text.{hint}")
