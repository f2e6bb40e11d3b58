"""A document over HTTP: uploaded, read, asked about, and still there after a restart."""

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cli.client import Client, Refused
from tests.flows.conftest import LecternServer, MakeServer

STORY = "The lamp of Varnholm burned twelve litres of oil a night. Its keeper was Odile Brandt. "
QUESTION = "Who was the keeper?"
WAITING = ("read again", "rebuilt")
PHASES = ["prefill", "cluster", "calibrate"]


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "story.txt"
    path.write_text(STORY * 40)
    return path


def attempts(server: LecternServer, document_id: str) -> list[int]:
    """How often each job of a document was begun, read beside the server."""
    with closing(sqlite3.connect(server.data_dir / "lectern.sqlite3")) as database:
        rows = database.execute(
            "SELECT attempt FROM jobs WHERE document_id = ?", [document_id.replace("-", "")]
        )
        return [row[0] for row in rows]


def manifests(server: LecternServer) -> list[Path]:
    """Artifacts that could be taken for whole ones: drafts carry a name of their own."""
    folders = (server.data_dir / "artifacts").iterdir()
    return [path / "manifest.json" for path in folders if path.suffix != ".draft"]


def test_a_document_is_read_once_and_asked_before_and_after_a_restart(
    tiny_server: LecternServer, story: Path
) -> None:
    with tiny_server.client() as client:
        document_id = client.upload_path(story)["id"]
        events = list(client.events(document_id))
        ready = client.document(document_id)
        first = client.ask(document_id, QUESTION, max_tokens=8)
        again = client.ask(document_id, QUESTION, max_tokens=8)
    first_start = "\n".join(tiny_server.lines)
    assert tiny_server.stop() == 0
    tiny_server.start()
    with tiny_server.client() as client:
        after = client.document(document_id)
        restarted = client.ask(document_id, QUESTION, max_tokens=8)

    assert events[-1]["status"] == "ready"
    assert [event["status"] for event in events[:-1]].count("ready") == 0
    assert ready["num_tokens"] > len(STORY) * 40
    spent = ready["reading_ms"]
    assert spent["prefill"] > 0
    assert spent["total"] == pytest.approx(sum(spent.values()) - spent["total"], abs=0.1)
    assert ready["stored_bytes"] > 0
    assert ready["tier"] == "device", "what was just read need not be loaded"
    assert after == {**ready, "tier": "disk"}
    assert (first["cache_hit"], first["timings_ms"]["load"]) == (True, 0)
    assert attempts(tiny_server, document_id) == [1]
    assert first["answer"] == again["answer"] == restarted["answer"]
    assert (again["cache_hit"], restarted["cache_hit"]) == (True, False)
    assert again["timings_ms"]["load"] == 0 < restarted["timings_ms"]["load"]
    assert 0 < first["budget"]["loaded"] < 1
    # Secrets are printed at the first start only, and never logged.
    assert first_start.count(tiny_server.key) == 1
    assert "Dashboard password" in first_start
    assert "shown only now" not in "\n".join(tiny_server.lines)
    assert tiny_server.key not in tiny_server.log()


def test_nobody_else_can_read_what_is_stored(
    make_server: MakeServer, tiny_model: str, story: Path
) -> None:
    previous = os.umask(0o022)  # what most systems give to a service
    try:
        server = make_server(LECTERN_MODEL=tiny_model)
    finally:
        os.umask(previous)
    with server.client() as client:
        list(client.events(client.upload_path(story)["id"]))
        paths = [server.data_dir, *server.data_dir.rglob("*")]
    assert {"lectern.sqlite3", "manifest.json", "admin-password.hash"} <= {p.name for p in paths}
    assert [path for path in paths if path.exists() and path.stat().st_mode & 0o077] == []


def test_progress_is_told_phase_by_phase(shared_server: LecternServer, story: Path) -> None:
    story.write_text("Told once. " + STORY * 40)
    with shared_server.client() as client:
        document_id = client.upload_path(story)["id"]
        events = list(client.events(document_id))
    phases = [event["phase"] for event in events if event["phase"] in PHASES]
    assert phases == sorted(phases, key=PHASES.index)
    for event in events:
        assert (event["tokens_done"] or 0) <= (event["tokens_total"] or 0)


def test_a_server_killed_while_it_reads_finishes_after_its_restart(
    make_server: MakeServer, tiny_model: str, story: Path
) -> None:
    server = make_server(
        LECTERN_MODEL=tiny_model,
        LECTERN_WORKER__LEASE_S="2",
        LECTERN_WORKER__HEARTBEAT_S="0.5",
        LECTERN_PRECOMPUTE__CHUNK_TOKENS="16",
    )
    with server.client() as client:
        document_id = client.upload_path(story)["id"]
        for event in client.events(document_id):
            if event["status"] == "reading" and event["tokens_done"]:
                break
        server.kill()
    assert manifests(server) == []
    assert attempts(server, document_id) == [1]

    server.start()
    with server.client() as client:
        assert client.document(document_id)["status"] in ("queued", "reading")
        assert list(client.events(document_id))[-1]["status"] == "ready"
        assert client.ask(document_id, QUESTION, max_tokens=4)["usage"]["completion_tokens"] > 0
    assert len(manifests(server)) == 1
    assert attempts(server, document_id) == [2]


def test_the_same_file_again_is_the_same_document(
    shared_server: LecternServer, story: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.txt"
    copy.write_bytes(story.read_bytes())
    with shared_server.client() as client:
        document_id = client.upload_path(story)["id"]
        list(client.events(document_id))
        second = client.upload_path(copy)
    assert (second["id"], second["status"]) == (document_id, "ready")
    assert attempts(shared_server, document_id) == [1]


def test_another_model_never_answers_from_the_old_cache(
    tiny_server: LecternServer, story: Path
) -> None:
    server = tiny_server
    with server.client() as client:
        document_id = client.upload_path(story)["id"]
        list(client.events(document_id))
        before = client.ask(document_id, QUESTION, max_tokens=4)
    server.stop()
    server.change(LECTERN_PRECOMPUTE__NUM_SINKS="512")
    server.start()
    with server.client() as client:
        answers = asked_until_answered(client, document_id)
    assert attempts(server, document_id) == [1, 1]
    assert answers["budget"]["loaded"] > before["budget"]["loaded"]


def asked_until_answered(client: Client, document_id: str) -> dict[str, Any]:
    """The first answer that is given; what comes before has to be a refusal that says why."""
    for _ in range(200):
        try:
            return client.ask(document_id, QUESTION, max_tokens=4)
        except Refused as error:
            if not any(reason in error.message for reason in WAITING):
                raise
            time.sleep(0.2)
    raise AssertionError("the document was not read again")
