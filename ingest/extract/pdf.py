"""PDF files: the text of the pages, in the order in which it is read."""

from dataclasses import dataclass
from pathlib import Path

import pypdf
from pypdf.errors import DependencyError, LimitReachedError

from common.errors import DocumentRejected, EncryptedPdf
from ingest.archive import unpacked_bytes_limit
from ingest.limits import Limits, too_long_error
from ingest.paragraphs import join_lines
from ingest.pdf_pages import open_pdf
from ingest.text import DocumentText


@dataclass(frozen=True)
class PdfExtractor:
    """Extracts text of PDFs that open without a password, or with an empty one."""

    limits: Limits

    def extract(self, path: Path) -> DocumentText:
        """Return the text of the file at `path` with one span for each page.

        PDFium, which reads the pages, has no limits of its own; pypdf looks first how much they
        unpack to.

        Raises: EncryptedPdf; DocumentRejected if the file is damaged or unpacks to too much;
            DocumentTooLong.
        """
        self._check(path)
        pages, num_chars = [], 0
        with open_pdf(path) as pdf:
            for number in range(1, pdf.num_pages + 1):
                pages.append(pdf.read(number))
                num_chars += sum(len(word.text) for run in pages[-1].runs for word in run.words)
                if num_chars > self.limits.text_chars:
                    raise too_long_error(num_chars, self.limits, is_all=False)
        return join_lines(pages)

    def _check(self, path: Path) -> None:
        max_bytes = self.limits.stream_bytes
        with pypdf.apply_configuration(
            disable_legacy_handling=True,
            zlib_maximum_output_length=max_bytes,
            lzw_maximum_output_length=max_bytes,
            run_length_maximum_output_length=max_bytes,
            array_based_stream_maximum_output_length=max_bytes,
        ):
            try:
                self._count(path)
            except LimitReachedError as error:
                raise _bomb_error() from error

    def _count(self, path: Path) -> None:
        with pypdf.PdfReader(path) as reader:
            if is_locked(reader):
                raise EncryptedPdf(
                    "The PDF asks for a password. Remove it and upload the file again."
                )
            remaining = unpacked_bytes_limit(path, self.limits)
            for page in reader.pages:
                remaining -= _count_content_bytes(page)
                if remaining < 0:
                    raise _bomb_error()


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
