"""Extraction in this process; strangers' files go through `ingest.sandbox` instead."""

from pathlib import Path

from common import plugins
from common.errors import DocumentRejected, EmptyDocument, LecternError
from ingest import extract as folder
from ingest.extract.base import Extractor
from ingest.limits import Limits
from ingest.text import DocumentText


def extract(path: Path, kind: str, limits: Limits) -> DocumentText:
    """Read a file of a known kind as plain text.

    Args:
        kind: name of the extractor, as `inspect` returns it.
    Raises: DocumentRejected and its kin (EmptyDocument, EncryptedPdf, ArchiveBomb,
        UnknownEncoding, UnsupportedType); UnknownPlugin for a kind without extractor.
    """
    extractor: Extractor = plugins.build(folder, kind, limits)
    try:
        document = extractor.extract(path)
    except (LecternError, MemoryError):
        raise
    except Exception as error:  # parsers raise whatever a broken file makes them raise
        raise DocumentRejected(f"The file is damaged and cannot be read as {kind}.") from error
    return _accepted(document, kind, limits)


def _accepted(document: DocumentText, kind: str, limits: Limits) -> DocumentText:
    if len(document.text) > limits.text_chars:
        raise DocumentRejected(f"The file holds more than {limits.text_chars:,} characters.")
    if not document.text.strip().strip("\ufeff"):
        hint = " Scanned pages need text recognition first." if kind == "pdf" else ""
        raise EmptyDocument(f"The file holds no text.{hint}")
    return document
