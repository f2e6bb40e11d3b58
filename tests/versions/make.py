"""Write what the running version stores, as a fixture that later versions must read or migrate.

python -m tests.versions.make tests/versions/NAME

Makes a model folder, a data folder (SQLite database, originals, artifacts) and `expected.json`.
"""

import io
import json
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import LlamaConfig

from cli.client import Client
from engine.model.head_plan import write_plan
from tests.flows.conftest import LecternServer
from tests.models import HALF, byte_tokenizer, prose, random_model, sizes

QUESTION = "Who keeps the letters?"
KEPT = ("lectern.sqlite3", "artifacts", "blobs")


def make(folder: Path) -> None:
    """Run a server through a document's whole life and keep what it leaves behind."""
    model = folder / "model"
    random_model(LlamaConfig(**sizes())).half().save_pretrained(model)
    byte_tokenizer().save_pretrained(model)
    write_plan(HALF, model / "head_plan.json")
    with tempfile.TemporaryDirectory() as scratch:
        server = LecternServer(Path(scratch), {"LECTERN_MODEL": str(model)})
        try:
            expected = _live(server)
        finally:
            server.end()
        _checkpoint(server.data_dir / KEPT[0])
        for name in KEPT:
            source, target = server.data_dir / name, folder / "data" / name
            target.parent.mkdir(exist_ok=True)
            shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    (folder / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")


def _live(server: LecternServer) -> dict[str, Any]:
    """One document that was asked, one that could not be read, one that is still waiting."""
    server.start()
    with server.client() as client:
        ready = _upload(client, "lamps.txt", prose(1200))["id"]
        failed = _upload(client, "long.txt", prose(6000))["id"]
        wait_until(lambda: client.document(ready)["status"] == "ready")
        wait_until(lambda: client.document(failed)["status"] == "failed")
        answers = {
            budget: client.ask(ready, QUESTION, budget=budget, max_tokens=8)
            for budget in ("balanced", "exact")
        }
    assert server.stop() == 0
    server.change(LECTERN_SERVER__EMBEDDED_WORKER="false")
    server.start()
    with server.client() as client:
        waiting = _upload(client, "maps.txt", prose(600, seed=1))["id"]
        documents = {
            name: client.document(document_id)
            for name, document_id in (("ready", ready), ("failed", failed), ("queued", waiting))
        }
    assert server.stop() == 0
    return {"key": server.key, "question": QUESTION, "documents": documents, "answers": answers}


def _upload(client: Client, name: str, text: str) -> dict[str, Any]:
    return client.upload(name, io.BytesIO(text.encode()))


def wait_until(holds: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Wait until something holds."""
    end_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end_s, "waited in vain"
        time.sleep(0.1)


def _checkpoint(database: Path) -> None:
    """Bring the write-ahead log into the file."""
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
