"""What extraction could not take from a file is said, through the limited process too."""

from pathlib import Path

import pytest

from ingest.extract import extract
from ingest.limits import Limits
from ingest.sandbox import extract_limited
from tests.ingest.conftest import Put
from tests.ingest.samples import docx_file, pdf_pages, with_body

PICTURE = (
    "<w:p><w:r><w:t>Seen.</w:t><w:drawing><pic:pic xmlns:pic="
    '"http://schemas.openxmlformats.org/drawingml/2006/picture"/></w:drawing></w:r></w:p>'
)
LINE = b"BT /F1 12 Tf 50 700 Td (A line.) Tj ET"


@pytest.mark.parametrize(
    ("kind", "data", "code", "says"),
    [
        ("pdf", pdf_pages([LINE, b"", LINE, b""]), "pages_without_text", "2 of 4 pages"),
        ("txt", "A line \ufffd here.".encode(), "undecodable_bytes", "1 characters"),
        ("html", b"<p>Text</p><img src=a><img src=b><iframe>x</iframe>", "dropped_parts",
         "1 embedded pages, 2 pictures"),
        ("docx", with_body(PICTURE), "dropped_parts", "1 pictures"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said(put: Put, kind: str, data: bytes, code: str, says: str) -> None:
    path = put(data)
    warnings = extract(path, kind, Limits()).warnings
    assert set(warnings) == {code}
    assert says in warnings[code]
    if kind == "pdf":
        assert extract_limited(path, kind, Limits()).warnings == warnings


def test_a_file_that_is_all_text_has_none(put: Put, tmp_path: Path) -> None:
    assert extract(put(docx_file()), "docx", Limits()).warnings == {}
    assert extract(put(b"Only text."), "txt", Limits()).warnings == {}
