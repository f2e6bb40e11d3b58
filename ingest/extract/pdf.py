"""PDF: the text of each page, in the order in which the file draws it."""

from dataclasses import dataclass
from pathlib import Path

import pypdf
from pypdf.errors import DependencyError, LimitReachedError

from common.errors import DocumentRejected, EncryptedPdf
from ingest.limits import Limits
from ingest.text import DocumentText, join_pages


@dataclass(frozen=True)
class PdfExtractor:
    """Reads PDFs that need no password; an empty one, as print shops set it, is tried."""

    limits: Limits

    def extract(self, path: Path) -> DocumentText:
        """One page span a page. Raises: EncryptedPdf, DocumentRejected (damaged, or a bomb)."""
        work = self.limits.stream_bytes
        with pypdf.apply_configuration(
            disable_legacy_handling=True,
            zlib_maximum_output_length=work,
            lzw_maximum_output_length=work,
            run_length_maximum_output_length=work,
            array_based_stream_maximum_output_length=work,
        ):
            try:
                return self._read(path)
            except LimitReachedError as error:
                raise _bomb() from error

    def _read(self, path: Path) -> DocumentText:
        with pypdf.PdfReader(path) as reader:
            if locked(reader):
                raise EncryptedPdf(
                    "The PDF asks for a password. Remove it and upload the file again."
                )
            left = _allowance(path, self.limits)
            pages = []
            for page in reader.pages:
                left -= _content_bytes(page)
                if left < 0:
                    raise _bomb()
                pages.append(page.extract_text())
        return join_pages(pages or [""])


def locked(reader: pypdf.PdfReader) -> bool:
    """Whether the file needs a password, or a cipher that we do not have."""
    if not reader.is_encrypted:
        return False
    try:
        return not reader.decrypt("")
    except (DependencyError, NotImplementedError):
        return True


def _content_bytes(page: pypdf.PageObject) -> int:
    """Unpacked bytes of what the page draws; time to read it grows with them."""
    content = page.get_contents()
    return 0 if content is None else len(content.get_data())


def _allowance(path: Path, limits: Limits) -> int:
    by_ratio = max(limits.ratio_floor_bytes, limits.ratio * path.stat().st_size)
    return min(limits.unpacked_bytes, by_ratio)


def _bomb() -> DocumentRejected:
    return DocumentRejected("The PDF unpacks to far more than its size allows.")


def build(limits: Limits) -> PdfExtractor:
    """The plug-in's entry."""
    return PdfExtractor(limits)
