"""Other settings read nothing again by themselves, and take nothing away from the first ones."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cli.client import Client, Refused
from tests.flows.conftest import LecternServer, MakeServer
from tests.models import prose

QUESTION = "Who keeps the letters?"


def jobs(server: LecternServer) -> int:
    """How many jobs there ever were, read beside the server."""
    with closing(sqlite3.connect(server.data_dir / "lectern.sqlite3")) as database:
        count: int = database.execute("SELECT count(*) FROM jobs").fetchone()[0]
        return count


def ask(client: Client, document_id: str) -> dict[str, Any]:
    return client.ask(document_id, QUESTION, max_tokens=6)


def wait_until_answered(client: Client, document_id: str) -> dict[str, Any]:
    deadline_s = time.monotonic() + 120
    while True:
        try:
            return ask(client, document_id)
        except Refused:
            assert time.monotonic() < deadline_s
            time.sleep(0.2)


def test_caches_of_the_first_settings_still_answer_after_others_were_tried(
    make_server: MakeServer, tiny_model: str, tmp_path: Path
) -> None:
    server = make_server(LECTERN_MODEL=tiny_model, LECTERN_LOG_JSON="true")
    with server.client() as client:
        documents = []
        for number in range(2):
            path = tmp_path / f"{number}.txt"
            path.write_text(prose(700, seed=number))
            documents.append(client.upload_path(path)["id"])
            assert list(client.events(documents[-1]))[-1]["status"] == "ready"
        before = [ask(client, document_id) for document_id in documents]
        ready = [{**client.document(one), "tier": "disk"} for one in documents]
    assert server.stop() == 0
    assert jobs(server) == 2

    server.change(LECTERN_PRECOMPUTE__SEED="7")
    server.start()
    assert '"num_documents": 2' in server.log()
    assert f'"num_tokens": {sum(one["num_tokens"] for one in ready)}' in server.log()
    with server.client() as client:
        seen = [client.document(document_id) for document_id in documents]
        assert [(one["status"], one["is_stale"]) for one in seen] == [("ready", True)] * 2
        time.sleep(1.0)
        assert jobs(server) == 2, "the start reads nothing"
        with pytest.raises(Refused, match="present model and settings"):
            ask(client, documents[0])
        wait_until_answered(client, documents[0])
        assert client.document(documents[1])["is_stale"]
    assert server.stop() == 0
    assert jobs(server) == 3, "the question had one document read again"

    server.change(LECTERN_PRECOMPUTE__SEED="0")
    server.start()
    with server.client() as client:
        assert [client.document(document_id) for document_id in documents] == ready
        after = [ask(client, document_id) for document_id in documents]
    assert server.stop() == 0
    assert [one["answer"] for one in after] == [one["answer"] for one in before]
    assert jobs(server) == 3, "nothing was read again"
