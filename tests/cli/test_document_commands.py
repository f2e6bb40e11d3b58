"""`lectern documents`, `chat` and `cache prefetch`, as their user types them."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from cli.documents import follow
from cli.exit_codes import TOLD
from cli.names import nearest
from cli.options import parse_budget
from cli.show import make_console
from common.errors import InvalidInput
from tests.cli.conftest import ID, FakeServer, answer, document, events, refusal

Lectern = Callable[..., tuple[int, str, str]]
OTHER = "22222222-2222-4333-8444-555555555555"
HEAVY = (
    "torch",
    "transformers",
    "sqlalchemy",
    "fastapi",
    "uvicorn",
    "prometheus_client",
    "alembic",
)


@pytest.fixture
def listed(server: FakeServer) -> FakeServer:
    """A server with two documents."""
    page = {
        "data": [document(), document(id=OTHER, filename="contract-2024.pdf")],
        "has_more": False,
    }
    server.on("GET", "/documents", httpx.Response(200, json=page))
    for one in page["data"]:
        server.on("GET", f"/documents/{one['id']}", httpx.Response(200, json=one))
    return server


def say(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Put a text on standard input, which is no terminal then."""
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def sent(server: FakeServer) -> dict[str, object]:
    """The JSON of the last request."""
    body: dict[str, object] = json.loads(server.requests[-1].read())
    return body


def test_without_a_command_documents_are_listed(listed: FakeServer, lectern: Lectern) -> None:
    assert lectern("documents")[1] == lectern("documents", "list")[1]
    assert len(json.loads(lectern("documents", "list", "--json")[1])) == 2


def test_one_document_is_shown_with_all_that_is_known(server: FakeServer, lectern: Lectern) -> None:
    failed = document(
        status="failed",
        error={"code": "encrypted_pdf", "message": "The PDF asks for a password."},
        num_tokens=None,
        reading_ms=None,
        tier=None,
        warnings=[{"code": "x", "message": "It will not fit."}],
    )
    server.on("GET", f"/documents/{ID}", httpx.Response(200, json=failed))
    code, out, _ = lectern("documents", "show", ID)
    assert code == 0
    assert ID in out
    assert "asks for a password" in out
    assert "It will not fit." in out
    shown = document(tier="device", pinned=True, warnings=[])
    server.on("GET", f"/documents/{ID}", httpx.Response(200, json=shown))
    assert "in memory, pinned" in lectern("documents", "show", ID)[1]
    assert json.loads(lectern("documents", "show", ID, "--json")[1]) == shown


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("contract", " Did you mean 'contract-2024.pdf'?"),
        ("contrat-2024.pdf", " Did you mean 'contract-2024.pdf'?"),
        ("lihgts.txt", " Did you mean 'lights.txt'?"),
        ("zebra", ""),
    ],
)
def test_a_name_that_is_not_found_gets_the_nearest(
    name: str, hint: str, listed: FakeServer, lectern: Lectern
) -> None:
    code, _, err = lectern("ask", name, "Who?")
    assert code == 4
    assert err == f"Error: No document is called '{name}', and no id begins with it.{hint}\n"


def test_the_nearest_names_are_few_and_the_most_alike_first() -> None:
    names = ["report-1.pdf", "report-2.pdf", "report-3.pdf", "report-33.pdf", "x"]
    assert nearest("report-3", names)[0] == "report-3.pdf"
    assert len(nearest("report", names)) == 3


def test_several_documents_are_deleted_at_once_or_none(
    listed: FakeServer, lectern: Lectern, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(monkeypatch, "")
    for one in (ID, OTHER):
        listed.on("DELETE", f"/documents/{one}", httpx.Response(204))
    assert lectern("documents", "delete", "lights.txt")[0] == 1, "without a terminal say --yes"
    assert lectern("documents", "delete", "lights.txt", "zebra", "--yes")[0] == 4
    assert not [one for one in listed.requests if one.method == "DELETE"]
    code, out, _ = lectern("documents", "delete", "lights.txt", OTHER[:5], "--yes")
    assert code == 0
    assert out.count("Deleted") == 2


def test_documents_are_renamed_pinned_and_read_again(listed: FakeServer, lectern: Lectern) -> None:
    changed = document(filename="beacons.txt", pinned=True, warnings=[])
    listed.on("PATCH", f"/documents/{ID}", httpx.Response(200, json=changed))
    assert "beacons.txt" in lectern("documents", "rename", "lights.txt", "beacons.txt")[1]
    assert sent(listed) == {"filename": "beacons.txt"}
    assert "stays in memory" in lectern("documents", "pin", "lights.txt")[1]
    assert sent(listed) == {"pinned": True}
    lectern("documents", "pin", "lights.txt", "--off")
    assert sent(listed) == {"pinned": False}
    listed.on("POST", f"/documents/{ID}/retry", httpx.Response(202, json=document(status="queued")))
    assert lectern("documents", "retry", "lights.txt")[1] == "lights.txt: queued\n"


def test_the_text_is_printed_as_it_is(listed: FakeServer, lectern: Lectern) -> None:
    text = "A [bold] line " + "that is long " * 30 + "\n\tand :smile: another."
    body = {"document_id": ID, "text": text}
    listed.on("GET", f"/documents/{ID}/text", httpx.Response(200, json=body))
    assert lectern("documents", "text", "lights.txt", "--page", "2")[1] == text + "\n"
    assert listed.requests[-1].url.params["page"] == "2"


def test_caches_are_loaded_and_evicted(listed: FakeServer, lectern: Lectern) -> None:
    path = f"/documents/{ID}"
    listed.on("POST", f"{path}/prefetch", httpx.Response(202, json=document(tier="disk")))
    listed.on("GET", path, httpx.Response(200, json=document(tier="device")))
    listed.on("POST", f"{path}/evict", httpx.Response(202, json=document(tier="disk")))
    assert "is being loaded" in lectern("cache", "prefetch", "lights.txt")[1]
    assert "is in memory" in lectern("cache", "prefetch", "lights.txt", "--wait")[1]
    assert "leaves memory" in lectern("cache", "evict", "lights.txt")[1]
    listed.on("POST", f"{path}/evict", refusal(409, "It is pinned."))
    assert lectern("cache", "evict", "lights.txt")[0] == 5


def test_a_question_may_come_from_standard_input(
    server: FakeServer, lectern: Lectern, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.on("POST", f"/documents/{ID}/ask", httpx.Response(200, json=answer()))
    for arguments in ((), ("-",)):
        say(monkeypatch, "Who kept\nit?\n")
        assert lectern("ask", ID, *arguments, "--json", "--budget", "10%")[0] == 0
        assert sent(server)["question"] == "Who kept\nit?"
        assert sent(server)["budget"] == 0.1
    say(monkeypatch, " \n")
    assert lectern("ask", ID)[0] == 1


def test_quotes_tell_their_places_and_what_is_unfounded_is_told(
    server: FakeServer, lectern: Lectern
) -> None:
    quote = {"text": "Odile Brandt", "page": 3, "start_char": 60, "end_char": 72}
    grounded = [
        {"text": "Odile", "is_grounded": True},
        {"text": "1984", "is_grounded": False},
    ]
    body = answer(quotes=[quote], grounded=grounded)
    server.on("POST", f"/documents/{ID}/ask", events(("answer", body)))
    out = lectern("ask", ID, "Who kept it?", "--quote")[1]
    assert sent(server)["mode"] == "quote"
    assert re.search(r"quoted +page 3, characters 60 to 72", out)
    assert re.search(r"caution +not in the document: 1984", out)
    lectern("ask", ID, "Who kept it?", "--free")
    assert sent(server)["mode"] == "free"
    lectern("ask", ID, "Who kept it?")
    assert "mode" not in sent(server)


def test_budgets_are_shares_or_names() -> None:
    given = ("10%", " 15 % ", "0.1", "100%", "fast", "exact")
    assert [parse_budget(one) for one in given] == [0.1, 0.15, 0.1, 1.0, "fast", "exact"]
    for wrong in ("10", "0", "-5%", "101%", "nan"):
        with pytest.raises(InvalidInput, match=r"write 10% or 0\.1"):
            parse_budget(wrong)


def test_a_chat_sends_what_was_said_before_and_keeps_nothing(
    listed: FakeServer, lectern: Lectern, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = events(("piece", {"text": "Odile"}), ("answer", answer("Odile")))
    listed.routes["POST", f"/documents/{ID}/ask"] = lambda _: events_again(frames)
    say(monkeypatch, "Who kept it?\n\nSince when?\n/new\nWhere?\n/quit\nnever asked\n")
    code, out, _ = lectern("chat", "lights.txt", "--budget", "fast")
    assert code == 0
    asked = [json.loads(one.read()) for one in listed.requests if one.method == "POST"]
    assert [one["question"] for one in asked] == ["Who kept it?", "Since when?", "Where?"]
    assert [one.get("turns") for one in asked] == [
        None, [{"question": "Who kept it?", "answer": "Odile"}], None,
    ]  # fmt: skip
    assert not any("keep" in one for one in asked)
    assert out.count("page 3") == 3


def events_again(response: httpx.Response) -> httpx.Response:
    return httpx.Response(200, content=response.content, headers=response.headers)


def test_uploads_can_be_told_as_json_alone(
    server: FakeServer, lectern: Lectern, tmp_path: Path
) -> None:
    (tmp_path / "lights.txt").write_text("The keeper was Odile Brandt.")
    ready = {"status": "ready", "phase": None, "tokens_done": 0, "tokens_total": 0, "error": None}
    server.on("POST", "/documents", httpx.Response(202, json=document(status="queued")))
    server.on("GET", f"/documents/{ID}/events", events(("progress", ready)))
    server.on("GET", f"/documents/{ID}", httpx.Response(200, json=document()))
    code, out, err = lectern("upload", str(tmp_path / "lights.txt"), "--wait", "--json")
    assert (code, err) == (0, "")
    assert [one["status"] for one in json.loads(out)] == ["ready"]


def test_many_documents_are_followed_together_and_each_failure_is_told(server: FakeServer) -> None:
    ids = [f"{number:08d}-2222-4333-8444-555555555555" for number in range(12)]
    error = {"code": "empty_document", "message": "There is no text in it."}
    for number, one in enumerate(ids):
        status = "failed" if number % 5 == 3 else "ready"
        last = {"status": status, "phase": None, "tokens_done": 5, "tokens_total": 5}
        frames = events(("progress", last | {"error": error}))
        server.routes["GET", f"/documents/{one}/events"] = lambda _, kept=frames: events_again(kept)  # type: ignore[misc]
    documents = [document(id=one, filename=f"{one[:8]}.txt") for one in ids]
    failures = follow(server.client(), make_console(), documents)
    assert failures == [f"{one[:8]}.txt: There is no text in it." for one in (ids[3], ids[8])]


def test_what_ends_the_following_of_one_ends_the_command(server: FakeServer) -> None:
    server.on("GET", f"/documents/{ID}/events", refusal(404, "There is no such document."))
    server.on("GET", f"/documents/{OTHER}/events", refusal(404, "There is no such document."))
    with pytest.raises(Exception, match="no such document"):
        follow(server.client(), make_console(), [document(), document(id=OTHER)])


def test_ctrl_c_while_waiting_says_what_goes_on(
    server: FakeServer, lectern: Lectern, tmp_path: Path
) -> None:
    (tmp_path / "lights.txt").write_text("The keeper was Odile Brandt.")

    def interrupted(_: httpx.Request) -> httpx.Response:
        raise KeyboardInterrupt

    server.on("POST", "/documents", httpx.Response(202, json=document(status="queued")))
    server.routes["GET", f"/documents/{ID}/events"] = interrupted
    code, _, err = lectern("upload", str(tmp_path / "lights.txt"), "--wait")
    assert code == 130
    assert "are read all the same" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "command",
    [(), ("upload",), ("ask",), ("chat",), ("documents",), ("documents", "show"), ("cache", "gc")],
)
def test_help_tells_the_exit_codes(command: tuple[str, ...], lectern: Lectern) -> None:
    out = " ".join(lectern(*command, "--help")[1].split())
    assert TOLD in out


def test_each_kind_of_failure_has_its_exit_code(server: FakeServer, lectern: Lectern) -> None:
    for status, code in ((404, 4), (409, 5), (422, 1), (429, 5), (500, 1), (503, 5)):
        server.on("POST", f"/documents/{ID}/ask", refusal(status, "No."))
        assert lectern("ask", ID, "Who?")[0] == code, status

    def gone(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    server.routes["POST", f"/documents/{ID}/ask"] = gone
    assert lectern("ask", ID, "Who?")[0] == 3
    assert lectern("ask")[0] == 2


def test_the_version_is_told(lectern: Lectern) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", lectern("--version")[1])
    assert lectern("version")[1] == lectern("--version")[1]


def test_shells_can_complete_commands_and_names(
    listed: FakeServer, lectern: Lectern, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cli.options.Client", lambda *_, **__: listed.client())
    monkeypatch.setenv("_LECTERN_COMPLETE", "complete_bash")
    for words, found in (("lectern docu", "documents"), ("lectern ask contr", "contract-2024.pdf")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        assert found in lectern()[1]


@pytest.mark.parametrize(
    "command", [("cache", "list"), ("cache", "gc"), ("keys", "list"), ("tenant", "list")]
)
def test_a_command_that_only_looks_makes_nothing(
    command: tuple[str, ...], lectern: Lectern, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = lectern(*command)
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_commands_start_without_what_they_do_not_need() -> None:
    program = f"import cli.main, sys; sys.exit(str(set(sys.modules) & set({HEAVY!r})))"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.stderr == "set()\n"
