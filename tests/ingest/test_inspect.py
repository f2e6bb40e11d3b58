"""What is refused at upload, and with which code."""

import random

import pytest

from common.errors import LecternError
from ingest.inspect import inspect, inspect_quickly
from ingest.limits import Limits
from tests.ingest import samples
from tests.ingest.conftest import Put

RANDOM = random.Random(7).randbytes(5000)
UTF16_BARE = ("Лампа горит всегда. " * 30).encode("utf-16-le")


@pytest.mark.parametrize("kind", samples.SAMPLES)
def test_each_kind_is_told_from_its_bytes_and_name(kind: str, put: Put) -> None:
    filename, make = samples.SAMPLES[kind]
    assert inspect(put(make()), filename.upper(), Limits()).name == kind


@pytest.mark.parametrize("kind", ["txt", "html", "pdf", "docx"])
def test_a_file_without_extension_is_told_from_its_bytes(kind: str, put: Put) -> None:
    assert inspect(put(samples.SAMPLES[kind][1]()), "lights", Limits()).name == kind


def test_media_type_of_a_pdf(put: Put) -> None:
    assert inspect(put(samples.pdf()), "a.pdf", Limits()).media_type == "application/pdf"


@pytest.mark.parametrize(
    ("data", "filename", "code"),
    [
        (b"", "a.txt", "empty_document"),
        (b" \n\t\n ", "a.txt", "empty_document"),
        (b"\xef\xbb\xbf\n", "a.md", "empty_document"),
        (RANDOM, "a.txt", "unsupported_type"),
        (RANDOM, "a.pdf", "unsupported_type"),
        (bytes(1000), "a.txt", "unsupported_type"),
        (b"\x89PNG\r\n\x1a\n" + RANDOM, "a.txt", "unsupported_type"),
        (b"{\\rtf1 hello}", "a.txt", "unsupported_type"),
        (b"hello", "a.xlsx", "unsupported_type"),
        (b"hello", "a.docx", "unsupported_type"),
        (samples.pdf(), "a.docx", "unsupported_type"),
        (samples.pdf(), "a.txt", "unsupported_type"),
        (samples.docx_file(), "a.pdf", "unsupported_type"),
        (samples.zip_file({"a.txt": b"hello"}), "a.docx", "unsupported_type"),
        (b"PK\x03\x04" + RANDOM, "a.docx", "document_rejected"),
        ("light ".encode("utf-16-le") * 50, "a.txt", "unknown_encoding"),
        ("light ".encode("utf-16-be") * 50, "a.txt", "unknown_encoding"),
        (UTF16_BARE, "a.txt", "unknown_encoding"),
        (samples.encrypted_pdf("secret"), "a.pdf", "encrypted_pdf"),
        (samples.zip_bomb(30_000_000), "a.docx", "archive_bomb"),
        (samples.lying_zip(30_000_000), "a.docx", "archive_bomb"),
        (samples.lying_zip(50_000), "a.docx", "archive_bomb"),  # more than it says, if not too much
        (samples.crowded_zip(2100), "a.docx", "archive_bomb"),
        (samples.laughing_docx(), "a.docx", "document_rejected"),
    ],
)
def test_bad_files_are_refused_with_their_code(
    data: bytes, filename: str, code: str, put: Put
) -> None:
    with pytest.raises(LecternError) as refusal:
        inspect(put(data), filename, Limits())
    assert refusal.value.code == code
    assert refusal.value.message.endswith(".")


def test_a_pdf_that_opens_without_password_is_accepted(put: Put) -> None:
    assert inspect(put(samples.encrypted_pdf("")), "a.pdf", Limits()).name == "pdf"


def test_a_text_about_encryption_is_no_encrypted_pdf(put: Put) -> None:
    data = samples.pdf_objects(
        [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Count 0 /Kids [] >>"]
    ).replace(b"%%EOF", b"% /Encrypt 5 0 R\n%%EOF")
    assert inspect(put(data), "a.pdf", Limits()).name == "pdf"


def test_a_stray_nul_does_not_make_text_binary(put: Put) -> None:
    assert inspect(put(b"one\x00two " + b"text " * 400), "a.txt", Limits()).name == "txt"


def test_a_refusal_names_what_the_file_is(put: Put) -> None:
    with pytest.raises(LecternError, match="is a PDF file"):
        inspect(put(samples.pdf()), "a.docx", Limits())


@pytest.mark.parametrize(
    ("filename", "data", "is_quick"),
    [
        ("a.txt", b"plain", True),
        ("a.md", "\ufefflicht".encode(), True),
        ("a.txt", "light".encode("utf-16"), True),
        ("a.html", samples.html(), True),
        ("a.pdf", samples.pdf(), True),
        ("a.pdf", samples.encrypted_pdf(""), False),
        ("a.docx", samples.docx_file(), False),
        ("a.txt", "f\xfcr die L\xe4nge".encode("latin-1") * 20, False),
        ("a.html", b"<html><meta charset=punycode>" + b"a-b" * 9, False),
    ],
)
def test_what_takes_a_parser_or_a_guess_is_not_told_quickly(
    filename: str, data: bytes, is_quick: bool, put: Put
) -> None:
    assert (inspect_quickly(put(data), filename, Limits()) is not None) == is_quick


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"<!---->" * 500 + b"<html>", "html"),
        (b"<!---->" * 500 + b"x", "txt"),
        (b"<!--" * 900, "txt"),
        (b" \n" * 1000 + b"<!-- <html> --> <!DOCTYPE  html>", "html"),
        (b"<!-- a --> b <html>", "txt"),
    ],
)
def test_comments_before_a_page_take_no_time(data: bytes, kind: str, put: Put) -> None:
    found = inspect_quickly(put(data + b" some text"), "page", Limits())
    assert found is not None
    assert found.name == kind


def test_a_text_that_is_too_long_is_refused_before_it_is_read(put: Put) -> None:
    path = put("ä".encode() * 1000)
    assert inspect(path, "a.txt", Limits(text_chars=1000)).name == "txt"
    with pytest.raises(LecternError) as refusal:
        inspect(path, "a.txt", Limits(text_chars=999))
    assert refusal.value.code == "document_too_long"
