"""Extraction in a child: the same results, and limits that hold."""

from pathlib import Path

import psutil
import pytest

from common.errors import DocumentRejected, EmptyDocument, EncryptedPdf, JobCancelled
from ingest.extract import extract
from ingest.limits import MIB, Limits
from ingest.sandbox import extract_limited, is_locked
from tests.ingest import samples
from tests.ingest.conftest import Put


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

    path = put(b"word " * (40 * MIB // 5))
    with pytest.raises(JobCancelled):
        extract_limited(path, "txt", Limits(), cancel)
    assert psutil.Process().children() == []


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
    """The child answers whether it sees a variable, in place of what it was asked."""
    spy = "import json, os; print(json.dumps({'is_locked': '%s' in os.environ}))"
    monkeypatch.setenv("LECTERN_SECRET", "hunter2")
    for variable, is_seen in (("LANG", True), ("LECTERN_SECRET", False)):
        monkeypatch.setattr("ingest.sandbox.BOOTSTRAP", spy % variable)
        assert is_locked(put(b"anything"), Limits()) == is_seen


def test_only_a_pdf_with_a_password_is_locked(put: Put) -> None:
    assert is_locked(put(samples.encrypted_pdf("secret")), Limits())
    assert not is_locked(put(samples.encrypted_pdf("")), Limits())
    assert not is_locked(put(b"%PDF-1.4 broken"), Limits())
