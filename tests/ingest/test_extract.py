"""Text that comes out of each kind of file."""

import pytest

from common.errors import (
    DocumentRejected,
    DocumentTooLong,
    EmptyDocument,
    EncryptedPdf,
    UnknownPlugin,
)
from ingest.extract import extract
from ingest.limits import Limits
from ingest.text import DocumentText
from tests.ingest import samples
from tests.ingest.conftest import Put

BODY = f"Lights\n\n{samples.STORY}\n\nYear | Oil\n1871 | 12 l\n\n{samples.SECOND}"


def read(put: Put, kind: str, data: bytes) -> str:
    return extract(put(data), kind, Limits()).text


def page_texts(document: DocumentText) -> list[str]:
    return [document.text[page.start : page.end].strip() for page in document.pages]


@pytest.mark.parametrize("kind", ["txt", "markdown"])
def test_text_and_markdown_are_kept_as_their_source(kind: str, put: Put) -> None:
    data = samples.SAMPLES[kind][1]()
    assert read(put, kind, data) == data.decode()


def test_html_becomes_blocks_and_rows(put: Put) -> None:
    assert read(put, "html", samples.html()) == (
        f"Lights\n\n{samples.STORY}\n\n{samples.SECOND}\n\nYear | Oil\n1871 | 12 l"
    )


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("a <b>b</b>c<br>d", "a bc\nd"),
        ("<ul><li>one<li>\n<p>two</p></ul>", "- one\n- two"),
        ("<ul><li></li></ul>x", "x"),
        ("<pre>  a\n   b\n</pre>", "  a\n   b"),
        ("<table><tr><td></td><td><p>x</p><p>y</p></td><td>z", "| x y | z"),
        ("<p>a &amp; b&nbsp;&lt;c&gt;", "a & b\u00a0<c>"),
        ("<body><template>no</template><!-- no --><noscript>no</noscript>yes", "yes"),
        ("<p>\n  wrapped\n  words  </p>", "wrapped words"),
    ],
)
def test_html_reads_as_a_browser_shows_it(source: str, text: str, put: Put) -> None:
    assert read(put, "html", source.encode()) == text


def test_html_nested_deeper_than_python_recurses(put: Put) -> None:
    assert read(put, "html", b"<div>" * 5_000 + b"deep") == "deep"


def test_pdf_text_comes_with_its_pages(put: Put) -> None:
    document = extract(put(samples.pdf()), "pdf", Limits())
    assert page_texts(document) == [
        f"Lights\n\n{samples.STORY}",
        "The second page names Odile.",
    ]


def test_an_empty_page_keeps_its_number(put: Put) -> None:
    pages = [samples.pdf_lines("one"), b"", samples.pdf_lines("three")]
    document = extract(put(samples.pdf_pages(pages)), "pdf", Limits())
    assert page_texts(document) == ["one", "", "three"]


def test_docx_text_comes_in_order_with_its_tables(put: Put) -> None:
    assert read(put, "docx", samples.docx_file()) == BODY


@pytest.mark.parametrize(
    ("xml", "text"),
    [
        (
            "<w:sdt><w:sdtContent><w:p><w:r><w:t>kept</w:t></w:r></w:p></w:sdtContent></w:sdt>",
            "kept",
        ),
        ("<w:p><w:ins><w:r><w:t>new</w:t></w:r></w:ins></w:p>", "new"),
        (
            "<w:p><w:del><w:r><w:delText>old</w:delText></w:r></w:del><w:r><w:t>x</w:t></w:r></w:p>",
            "x",
        ),
        ("<w:p><w:del><w:r><w:br/><w:t>old</w:t></w:r></w:del><w:r><w:t>x</w:t></w:r></w:p>", "x"),
        (
            "<w:p><w:moveFrom><w:r><w:t>old</w:t></w:r></w:moveFrom><w:r><w:t>x</w:t></w:r></w:p>",
            "x",
        ),
        ("<w:p><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t></w:r></w:p>", "a\tb\n\nc"),
    ],
)
def test_docx_shows_what_word_shows(xml: str, text: str, put: Put) -> None:
    assert read(put, "docx", samples.with_body(xml)) == text


def test_merged_cells_of_a_tall_table(put: Put) -> None:
    merged = "<w:tcPr><w:vMerge/></w:tcPr>"
    row = f"<w:tr><w:tc>{merged}<w:p/></w:tc><w:tc><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc></w:tr>"
    assert (
        read(put, "docx", samples.with_body(f"<w:tbl>{row * 3000}</w:tbl>")).count(" | x") == 3000
    )


@pytest.mark.parametrize(
    ("kind", "data", "error"),
    [
        ("pdf", samples.image_pdf(), EmptyDocument),
        ("pdf", samples.encrypted_pdf("secret"), EncryptedPdf),
        ("pdf", samples.pdf_bomb(), DocumentRejected),
        ("pdf", samples.pdf_bomb(8_000_000), DocumentRejected),
        ("pdf", b"%PDF-1.4\nnothing else", DocumentRejected),
        ("pdf", samples.pdf()[:300], DocumentRejected),
        ("docx", samples.zip_file({"word/document.xml": b"<w"}), DocumentRejected),
        ("docx", samples.with_body("<w:p/>"), EmptyDocument),
        ("html", b"<html><script>only()</script></html>", EmptyDocument),
        ("txt", b"\x00 \n", EmptyDocument),
    ],
)
def test_unreadable_files_are_refused(
    kind: str, data: bytes, error: type[DocumentRejected], put: Put
) -> None:
    with pytest.raises(DocumentRejected) as refusal:
        read(put, kind, data)
    assert type(refusal.value) is error


def test_a_stream_of_a_pdf_is_unpacked_no_further_than_it_may_be(put: Put) -> None:
    page = b"BT /F1 12 Tf " + b"(A) Tj " * 500 + b"ET"
    path = put(samples.pdf_pages([page]))
    with pytest.raises(DocumentRejected, match="unpacks to far more than its size allows"):
        extract(path, "pdf", Limits(stream_bytes=len(page) // 2))


def test_all_pages_of_a_pdf_together_may_unpack_to_so_much(put: Put) -> None:
    page = b"BT /F1 12 Tf " + b"(A) Tj " * 500 + b"ET"  # 3.5 KB
    path = put(samples.pdf_pages([page] * 3))
    assert extract(path, "pdf", Limits()).text.count("A") == 1500
    two_pages = Limits(ratio=1, ratio_floor_bytes=2 * len(page))
    with pytest.raises(DocumentRejected, match="unpacks to far more than its size allows"):
        extract(path, "pdf", two_pages)
    with pytest.raises(DocumentRejected, match="unpacks to far more than its size allows"):
        extract(path, "pdf", Limits(unpacked_bytes=2 * len(page)))


def test_a_pdf_with_an_empty_password_is_read(put: Put) -> None:
    assert samples.STORY in read(put, "pdf", samples.encrypted_pdf(""))


def test_an_entity_never_brings_in_a_local_file(put: Put, tmp_path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("canary-4711")
    with pytest.raises(DocumentRejected) as refusal:
        read(put, "docx", samples.xxe_docx(secret))
    assert "canary" not in refusal.value.message


def test_what_lies_outside_a_docx_is_not_fetched(put: Put, monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("it opened a connection")

    data = samples.outward_docx()
    assert data != samples.docx_file()
    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    assert samples.STORY in read(put, "docx", data)


def test_too_much_text_is_refused(put: Put) -> None:
    with pytest.raises(DocumentTooLong, match="11 characters; at most 10"):
        extract(put(b"x" * 11), "txt", Limits(text_chars=10))


def test_an_unknown_kind_is_refused(put: Put) -> None:
    with pytest.raises(UnknownPlugin):
        extract(put(b"x"), "xlsx", Limits())
