"""Extraction in a child: the same results, and limits that hold."""

from pathlib import Path

import psutil
import pytest

from common.errors import (
    ArchiveBomb,
    DocumentRejected,
    EmptyDocument,
    EncryptedPdf,
    JobCancelled,
    ShuttingDown,
    UnknownEncoding,
    UnsupportedType,
)
from ingest.extract import extract
from ingest.limits import MIB, Limits
from ingest.sandbox import extract_limited, inspect_limited
from tests.ingest import samples
from tests.ingest.conftest import Put


def children() -> set[int]:
    """Processes that this one has started; other tests may have left some that they share."""
    return {child.pid for child in psutil.Process().children()}


@pytest.mark.parametrize("kind", samples.SAMPLES)
def test_the_child_reads_what_this_process_reads(kind: str, put: Put) -> None:
    path = put(samples.SAMPLES[kind][1]())
    assert extract_limited(path, kind, Limits()) == extract(path, kind, Limits())


def test_text_that_json_would_mangle_comes_through(put: Put) -> None:
    text = 'quote " slash \\ line\u2028separator \U0001f4a5\nsecond line'
    assert extract_limited(put(text.encode()), "txt", Limits()).text == text


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (samples.image_pdf(), EmptyDocument),
        (samples.encrypted_pdf("secret"), EncryptedPdf),
        (b"%PDF-1.4 broken", DocumentRejected),
    ],
)
def test_errors_come_back_typed(data: bytes, error: type[DocumentRejected], put: Put) -> None:
    with pytest.raises(DocumentRejected) as refusal:
        extract_limited(put(data), "pdf", Limits())
    assert type(refusal.value) is error


def test_running_out_of_memory_is_a_refusal(put: Put) -> None:
    path = put(b"x" * (60 * MIB))
    with pytest.raises(DocumentRejected, match="memory"):
        extract_limited(path, "txt", Limits(memory_bytes=128 * MIB))


def test_running_out_of_time_is_a_refusal(put: Put) -> None:
    with pytest.raises(DocumentRejected, match="seconds"):
        extract_limited(put(b"x"), "txt", Limits(timeout_s=0.01))


def test_an_extraction_can_be_stopped_and_leaves_no_process(put: Put) -> None:
    asked: list[int] = []

    def cancel() -> None:
        asked.append(1)
        if len(asked) == 2:
            raise JobCancelled("The document was deleted.")

    path, others = put(b"word " * (40 * MIB // 5)), children()
    with pytest.raises(JobCancelled):
        extract_limited(path, "txt", Limits(), cancel)
    assert children() <= others


@pytest.mark.parametrize(
    "data",
    [samples.looping_xref_pdf(), samples.looping_pages_pdf(), samples.looping_form_pdf()],
    ids=["xref", "pages", "form"],
)
def test_a_pdf_that_refers_to_itself_ends(data: bytes, put: Put) -> None:
    with pytest.raises(DocumentRejected) as refusal:
        extract_limited(put(data), "pdf", Limits(timeout_s=20.0))
    assert "seconds" not in refusal.value.message, "by itself, not by the clock"


def test_a_pdf_of_many_pages_is_read(put: Put) -> None:
    pages = [samples.pdf_lines(f"Page {number}.") for number in range(500)]
    document = extract_limited(put(samples.pdf_pages(pages)), "pdf", Limits())
    assert [page.number for page in document.pages] == list(range(1, 501))
    assert "Page 499." in document.text


def test_one_line_of_fifty_megabytes_is_read(put: Put) -> None:
    size = 50 * 1000 * 1000
    assert len(extract_limited(put(b"word " * (size // 5)), "txt", Limits()).text) == size


def test_the_child_sees_none_of_our_environment(
    put: Put, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spy = tmp_path / "sitecustomize.py"
    spy.write_text("raise SystemExit('loaded from the environment')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert extract_limited(put(b"fine"), "txt", Limits()).text == "fine"


def test_the_child_has_none_of_our_secrets(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child names as the media type whether it sees a variable."""
    answer = "{'kind': {'name': 'pdf', 'media_type': str('%s' in os.environ)}}"
    spy = f"import json, os; print(json.dumps({answer}))"
    monkeypatch.setenv("LECTERN_SECRET", "hunter2")
    for variable, is_seen in (("LANG", "True"), ("LECTERN_SECRET", "False")):
        monkeypatch.setattr("ingest.sandbox.BOOTSTRAP", spy % variable)
        assert inspect_limited(put(b"anything"), "a.pdf", Limits()).media_type == is_seen


def test_only_a_pdf_with_a_password_is_locked(put: Put) -> None:
    with pytest.raises(EncryptedPdf):
        inspect_limited(put(samples.encrypted_pdf("secret")), "a.pdf", Limits())
    for data in (samples.encrypted_pdf(""), b"%PDF-1.4 broken"):
        assert inspect_limited(put(data), "a.pdf", Limits()).name == "pdf"


@pytest.mark.parametrize(
    ("filename", "data", "error"),
    [
        ("a.docx", samples.zip_bomb(30_000_000), ArchiveBomb),
        ("a.docx", samples.crowded_zip(5000), ArchiveBomb),
        ("a.zip", samples.zip_file({"a": b"b"}), UnsupportedType),
        ("a.txt", "light ".encode("utf-16-le") * 50, UnknownEncoding),
        ("a.txt", bytes(range(256)) * 40, UnsupportedType),
    ],
)
def test_an_inspection_says_what_is_wrong(
    filename: str, data: bytes, error: type[DocumentRejected], put: Put
) -> None:
    with pytest.raises(DocumentRejected) as refusal:
        inspect_limited(put(data), filename, Limits())
    assert type(refusal.value) is error


def test_an_inspection_that_exceeds_a_limit_trusts_the_name(put: Put) -> None:
    hurried = Limits(timeout_s=0.01)
    assert inspect_limited(put(samples.encrypted_pdf("x")), "a.pdf", hurried).name == "pdf"
    assert inspect_limited(put(samples.zip_bomb(1000)), "a.docx", hurried).name == "docx"
    with pytest.raises(UnsupportedType):
        inspect_limited(put(samples.zip_bomb(1000)), "a.zip", hurried)
    large = samples.encrypted_pdf("x") + b"%" * (60 * MIB)
    assert inspect_limited(put(large), "a.pdf", Limits(memory_bytes=128 * MIB)).name == "pdf"


def test_a_process_whose_check_fails_is_ended(put: Put) -> None:
    running, others = set[int](), children()

    def check() -> None:
        running.update(children() - others)
        if running:
            raise ShuttingDown("Stop.")

    with pytest.raises(ShuttingDown):
        extract_limited(put(samples.pdf()), "pdf", Limits(), check)
    assert running
    assert not any(map(psutil.pid_exists, running))
