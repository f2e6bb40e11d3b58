"""PDF files: the text of each page, in the order in which the file draws it."""

from dataclasses import dataclass
from pathlib import Path

import pypdf
from pypdf.errors import DependencyError, LimitReachedError

from common.errors import DocumentRejected, EncryptedPdf
from ingest.archive import unpacked_bytes_limit
from ingest.limits import Limits
from ingest.text import DocumentText, join_pages


@dataclass(frozen=True)
class PdfExtractor:
    """Extracts text of PDFs that open without a password, or with an empty one."""

    limits: Limits

    def extract(self, path: Path) -> DocumentText:
        """Return the text of the file at `path` with one span for each page.

        Raises: EncryptedPdf; DocumentRejected if the file is damaged or unpacks to too much.
        """
        max_bytes = self.limits.stream_bytes
        with pypdf.apply_configuration(
            disable_legacy_handling=True,
            zlib_maximum_output_length=max_bytes,
            lzw_maximum_output_length=max_bytes,
            run_length_maximum_output_length=max_bytes,
            array_based_stream_maximum_output_length=max_bytes,
        ):
            try:
                return self._read(path)
            except LimitReachedError as error:
                raise _bomb_error() from error

    def _read(self, path: Path) -> DocumentText:
        with pypdf.PdfReader(path) as reader:
            if is_locked(reader):
                raise EncryptedPdf(
                    "The PDF asks for a password. Remove it and upload the file again."
                )
            remaining = unpacked_bytes_limit(path, self.limits)
            pages = []
            for page in reader.pages:
                remaining -= _count_content_bytes(page)
                if remaining < 0:
                    raise _bomb_error()
                pages.append(page.extract_text())
        return join_pages(pages or [""])


def is_locked(reader: pypdf.PdfReader) -> bool:
    """Return whether the file needs a password, or a cipher that is not available."""
    if not reader.is_encrypted:
        return False
    try:
        return not reader.decrypt("")
    except (DependencyError, NotImplementedError):
        return True


def _count_content_bytes(page: pypdf.PageObject) -> int:
    """Return the unpacked bytes of a page's content, on which the time to read it depends."""
    content = page.get_contents()
    return 0 if content is None else len(content.get_data())


def _bomb_error() -> DocumentRejected:
    return DocumentRejected("The PDF unpacks to far more than its size allows.")


def build(limits: Limits) -> PdfExtractor:
    """Make the extractor; this is the plug-in's entry point."""
    return PdfExtractor(limits)
