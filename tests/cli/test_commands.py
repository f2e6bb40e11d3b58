"""The client's commands, run as a user runs them."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import ID, FakeServer, answer, document, events, refusal

Lectern = Callable[..., tuple[int, str, str]]
READY = {
    "status": "ready",
    "phase": "calibrate",
    "tokens_done": 13_010,
    "tokens_total": 13_010,
    "error": None,
}


@pytest.fixture
def lights(tmp_path: Path) -> Path:
    path = tmp_path / "lights.txt"
    path.write_text("The keeper was Odile Brandt.")
    return path


@pytest.mark.parametrize(
    "command",
    [
        "demo",
        "serve",
        "worker",
        "upload",
        "ask",
        "chat",
        "documents",
        "cache",
        "keys",
        "heads",
        "doctor",
    ],
)
def test_every_command_explains_itself(command: str, lectern: Lectern) -> None:
    code, out, _ = lectern(command, "--help")
    assert code == 0
    assert command in out
    assert command in lectern("--help")[1]


def test_upload_sends_the_file_and_prints_its_id(
    lights: Path, server: FakeServer, lectern: Lectern
) -> None:
    server.on("POST", "/documents", httpx.Response(202, json=document(status="queued")))
    code, out, _ = lectern("upload", str(lights))
    assert code == 0
    assert f"{ID}  queued    lights.txt" in out
    assert b"Odile Brandt." in server.requests[0].read()


def test_upload_wait_follows_until_ready(
    lights: Path, server: FakeServer, lectern: Lectern
) -> None:
    server.on("POST", "/documents", httpx.Response(202, json=document(status="queued")))
    reading = READY | {"status": "reading", "phase": "prefill", "tokens_done": 512}
    frames = events(("progress", reading), ("progress", READY))
    server.on("GET", f"/documents/{ID}/events", frames)
    code, out, _ = lectern("upload", str(lights), "--wait")
    assert code == 0
    assert "13,010/13,010 tokens" in out


def test_a_refused_file_does_not_stop_the_others(
    lights: Path, server: FakeServer, lectern: Lectern, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.txt"
    empty.touch()

    def receive(request: httpx.Request) -> httpx.Response:
        if b'filename="empty.txt"' in request.read():
            return refusal(422, "The file is empty.", "empty_document")
        return httpx.Response(202, json=document())

    server.routes["POST", "/documents"] = receive
    code, out, err = lectern("upload", str(empty), str(lights))
    assert code == 1
    assert ID in out
    assert err == "Error: empty.txt: The file is empty.\n"


def test_a_document_that_fails_is_told_with_its_reason(
    lights: Path, server: FakeServer, lectern: Lectern
) -> None:
    server.on("POST", "/documents", httpx.Response(202, json=document(status="queued")))
    error = {"code": "encrypted_pdf", "message": "The PDF asks for a password."}
    failed = READY | {"status": "failed", "error": error}
    server.on("GET", f"/documents/{ID}/events", events(("progress", failed)))
    code, _, err = lectern("upload", "-w", str(lights))
    assert code == 1
    assert err == "Error: lights.txt: The PDF asks for a password.\n"


def test_ask_prints_thinking_before_the_answer(server: FakeServer, lectern: Lectern) -> None:
    frames = [("thinking", {"text": "Hm. "}), ("thinking", {"text": "Odile?"})]
    frames += [("piece", {"text": "Odile"}), ("answer", answer())]
    server.on("POST", f"/documents/{ID}/ask", events(*frames))
    code, out, _ = lectern("ask", ID, "Who kept it?", "--max-thinking-tokens", "9")
    assert code == 0
    assert out.splitlines()[:3] == ["Hm. Odile?", "", "Odile"]
    assert json.loads(server.requests[0].read())["max_thinking_tokens"] == 9


def test_ask_prints_the_answer_and_where_it_looked(server: FakeServer, lectern: Lectern) -> None:
    frames = [("piece", {"text": "Odile"}), ("piece", {"text": " [b]"}), ("answer", answer())]
    server.on("POST", f"/documents/{ID}/ask", events(*frames))
    code, out, _ = lectern("ask", ID, "Who kept it?", "--budget", "0.2")
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "Odile [b]"
    assert lines[1].rstrip().split(maxsplit=2) == ["page", "3", "Its keeper was Odile Brandt."]
    assert "15 % requested, 12 % loaded" in out
    assert "first token 38 ms, loaded in 12 ms" in out
    sent = json.loads(server.requests[0].read())
    assert sent == {"question": "Who kept it?", "budget": 0.2, "stream": True}


def test_ask_says_when_an_answer_was_given_before(server: FakeServer, lectern: Lectern) -> None:
    server.on("POST", f"/documents/{ID}/ask", events(("answer", answer(stored=True))))
    out = lectern("ask", ID, "Who kept it?")[1]
    assert "answered before" in out
    assert "loaded in" not in out
    server.on("POST", f"/documents/{ID}/ask", httpx.Response(200, json=answer(stored=True)))
    assert json.loads(lectern("ask", ID, "Who kept it?", "--json", "--anew")[1])["stored"] is True
    assert json.loads(server.requests[-1].read())["reuse_answer"] is False


def test_an_answer_that_breaks_off_is_an_error(server: FakeServer, lectern: Lectern) -> None:
    broken = {"error": {"message": "The document was deleted.", "code": "document_deleted"}}
    frames = [("piece", {"text": "Odile"}), ("error", broken)]
    server.on("POST", f"/documents/{ID}/ask", events(*frames))
    code, out, err = lectern("ask", ID, "Who kept it?")
    assert (code, err) == (1, "Error: The document was deleted.\n")
    assert out.startswith("Odile")


def test_ask_can_print_json(server: FakeServer, lectern: Lectern) -> None:
    server.on("POST", f"/documents/{ID}/ask", httpx.Response(200, json=answer()))
    code, out, _ = lectern("ask", ID, "Who kept it?", "--json")
    assert code == 0
    assert json.loads(out) == answer()


@pytest.mark.parametrize("name", ["lights.txt", "11111111"])
def test_a_document_may_be_named_by_file_or_prefix(
    name: str, server: FakeServer, lectern: Lectern
) -> None:
    page = {"data": [document(), document(id="9" * 8, filename="x")], "has_more": False}
    server.on("GET", "/documents", httpx.Response(200, json=page))
    server.on("POST", f"/documents/{ID}/ask", httpx.Response(200, json=answer()))
    assert lectern("ask", name, "Who?", "--json")[0] == 0


def test_an_ambiguous_name_is_refused(server: FakeServer, lectern: Lectern) -> None:
    page = {"data": [document(), document(id="2" * 8)], "has_more": False}
    server.on("GET", "/documents", httpx.Response(200, json=page))
    code, _, err = lectern("ask", "lights.txt", "Who?")
    shown = f"{ID[:8]}, 22222222"
    assert (code, err) == (
        1,
        f"Error: 2 documents fit 'lights.txt' ({shown}); give the id of one.\n",
    )


def test_documents_are_listed_in_a_table(server: FakeServer, lectern: Lectern) -> None:
    failed = document(status="failed", error={"code": "empty_document", "message": "No text."})
    half = {"phase": "prefill", "tokens_done": 50, "tokens_total": 100}
    reading = document(
        status="reading", progress=half, num_tokens=None, stored_bytes=None, filename="[red]x"
    )
    page = {"data": [document(), failed, reading], "has_more": False}
    server.on("GET", "/documents", httpx.Response(200, json=page))
    code, out, _ = lectern("documents")
    rows = out.splitlines()
    assert code == 0
    assert len(rows) == 4
    assert rows[1].split()[3:9] == ["13,010", "1", "2.0", "KiB", "5.0", "MiB"]
    assert "failed (empty_document)" in rows[2]
    assert "[red]x" in rows[3]
    assert "reading 50 %" in rows[3]


def test_an_empty_list_says_what_to_do(server: FakeServer, lectern: Lectern) -> None:
    server.on("GET", "/documents", httpx.Response(200, json={"data": [], "has_more": False}))
    assert "lectern upload" in lectern("documents")[1]


def test_an_error_is_one_sentence_and_no_traceback(server: FakeServer, lectern: Lectern) -> None:
    server.on("POST", f"/documents/{ID}/ask", refusal(409, "The document is still reading."))
    assert lectern("ask", ID, "Who?") == (5, "", "Error: The document is still reading.\n")


def test_a_file_that_does_not_exist_is_a_usage_error(lectern: Lectern) -> None:
    code, _, err = lectern("upload", "no-such-file.txt")
    assert code == 2
    assert "no-such-file.txt" in err
