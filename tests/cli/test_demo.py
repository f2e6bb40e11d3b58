"""The demo's judgement and its report; the demo as a whole is run in tests/flows."""

import io
import json
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from cli.demo import (
    AskedQuestion,
    DemoFailed,
    _folder_for,
    check_answers,
    find_handbook,
    read_demonstration,
    report,
    show_lines,
    show_next_steps,
)
from cli.listener import Secrets
from cli.settings import Settings
from common.errors import InvalidInput
from reader import HANDBOOK, WEIGHTS
from tests.cli.conftest import ID, FakeServer, answer, document, events
from tests.cli.test_commands import Lectern

CARD = """# Reader

It is a demonstration: right about 0.9 of planted facts,
and 0.5 of natural prose.

## Data
- books
"""


def asked(given: str, expected: str = "Odile Brandt") -> AskedQuestion:
    return AskedQuestion("Who kept it?", expected, answer(given))


def printed(write: object, *arguments: object) -> str:
    console = Console(file=io.StringIO(), width=110)
    write(console, *arguments)  # type: ignore[operator]
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("given", ["Odile Brandt", " odile  brandt.\n"])
def test_case_blanks_and_a_final_period_do_not_matter(given: str) -> None:
    assert asked(given).is_right


@pytest.mark.parametrize("given", ["", "Odile", "Odile Brandt and others"])
def test_anything_else_is_wrong(given: str) -> None:
    assert not asked(given).is_right


def test_the_shipped_handbook_can_be_shown() -> None:
    handbook, questions = find_handbook(HANDBOOK)
    assert handbook.read_text().startswith("#")
    assert questions.is_file()


def test_a_folder_without_questions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "handbook.md").touch()
    with pytest.raises(InvalidInput, match=r"one Markdown file and questions\.json"):
        find_handbook(tmp_path)


def test_fewer_than_six_right_answers_fail() -> None:
    right, wrong = asked("Odile Brandt"), asked("nobody")
    check_answers([right] * 6 + [wrong] * 2)
    with pytest.raises(DemoFailed, match="Only 5 of 8 answers are right"):
        check_answers([right] * 5 + [wrong] * 3)


@pytest.fixture
def data_dir(server: FakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Data of a demo that talks to the server in memory; its own would need a model."""

    @contextmanager
    def serve(settings: Settings, listener: socket.socket) -> Iterator[tuple[str, Secrets]]:
        (settings.data_dir / "lectern.db").touch()
        with listener:
            yield "http://test", Secrets("lk_a_b", None)

    monkeypatch.setenv("LECTERN_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr("cli.serve.serve_with_secrets", serve)
    monkeypatch.setattr("cli.demo.Client", lambda _url, _key: server.client())
    monkeypatch.setattr("cli.demo.configure", lambda _level: None)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield tmp_path / "data"
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("num_right", "code"), [(5, 1), (6, 0)])
def test_too_many_wrong_answers_end_with_an_error_and_no_data_is_left(
    num_right: int, code: int, data_dir: Path, server: FakeServer, lectern: Lectern, tmp_path: Path
) -> None:
    expected = ["Odile Brandt"] * num_right + ["somebody else"] * (8 - num_right)
    questions = [{"question": "Who kept it?", "answer": one} for one in expected]
    (tmp_path / "questions.json").write_text(json.dumps(questions))
    (tmp_path / "handbook.md").write_text("The keeper was Odile Brandt.")
    server.on("POST", "/documents", httpx.Response(202, json=document(status="queued")))
    server.on("GET", f"/documents/{ID}/events", events())
    server.on("GET", f"/documents/{ID}", httpx.Response(200, json=document()))
    server.on("POST", f"/documents/{ID}/ask", httpx.Response(200, json=answer("Odile Brandt")))
    ended, out, err = lectern("demo", "--handbook", str(tmp_path))
    assert ended == code
    assert f"{num_right} of 8 right" in out
    assert ("has stopped" in out) == ("What to do next" in out) == (code == 0)
    assert "http://test" not in out, "an address that answers no more is not shown"
    error = "Error: Only 5 of 8 answers are right; 6 are needed.\n"
    assert err == (error if code else "")
    assert not data_dir.exists()


def test_the_report_shows_what_was_promised() -> None:
    text = printed(report, document(), [asked("Odile Brandt"), asked("[nobody]")])
    words = " ".join(text.replace("\u2502", " ").split())
    for shown in (
        "Who kept it?",
        "Its keeper was Odile Brandt.",
        "[nobody]",
        "expected: Odile Brandt",
        "right",
        "wrong",
        "15 % requested",
        "12 % loaded",
        "38 ms",
        "re-reading: 41.0 s",
        "1 of 2 right",
    ):
        assert shown in words
    assert "1,068 times as long" in words


def test_the_lines_to_copy_are_not_wrapped_and_quote_what_they_must() -> None:
    text = printed(show_lines, "http://127.0.0.1:1", "lk_a_b", ID, "Who's the keeper?")
    curl = next(line for line in text.splitlines() if line.startswith("curl"))
    python = next(line for line in text.splitlines() if line.startswith("Python"))
    assert "Who'\\''s the keeper?" in curl
    assert f"/documents/{ID}/ask" in curl
    assert "Bearer lk_a_b" in python


def test_what_the_reader_is_comes_from_the_model_card(tmp_path: Path) -> None:
    card = tmp_path / "README.md"
    assert read_demonstration(card) == ""
    card.write_text(CARD)
    assert read_demonstration(card) == (
        "a demonstration: right about 0.9 of planted facts, and 0.5 of natural prose."
    )
    shipped = read_demonstration(WEIGHTS / "README.md")
    assert "planted facts" in shipped
    assert "natural prose" in shipped
    assert "run" not in shipped.split()


def test_a_data_folder_that_was_there_before_stays(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for folder, stays in ((tmp_path / "there", True), (tmp_path / "not" / "there", False)):
        with _folder_for(folder):
            assert folder.is_dir()
        assert folder.exists() is stays
    assert not (tmp_path / "not").exists()


def test_what_to_do_next_names_no_address_and_no_key() -> None:
    text = printed(show_next_steps)
    assert "lectern serve" in text
    assert "LECTERN_MODEL=MODEL" in text
    assert "http" not in text
