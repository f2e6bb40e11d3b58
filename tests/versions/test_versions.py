"""What earlier versions stored is read, or migrated, by this one; `make.py` made the fixtures."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.flows.conftest import LecternServer
from tests.versions.make import wait_until

HERE = Path(__file__).parent
VERSIONS = sorted(path.parent for path in HERE.glob("*/expected.json"))
AS_BEFORE = 4  # characters of an answer at a budget: of the passes whose budget was no other then
LASTING = ("filename", "media_type", "num_bytes", "status", "num_tokens", "num_pages", "created_at")


@pytest.fixture(params=VERSIONS, ids=lambda folder: folder.name)
def version(request: pytest.FixtureRequest) -> Path:
    """The folder of a version's fixture."""
    folder: Path = request.param
    return folder


@pytest.fixture
def expected(version: Path) -> dict[str, Any]:
    """What that version said about its documents, and how it answered."""
    found: dict[str, Any] = json.loads((version / "expected.json").read_text())
    return found


@pytest.fixture
def server(version: Path, tmp_path: Path) -> Any:
    """This version's server over a copy of that version's data."""
    shutil.copytree(version / "data", tmp_path / "data")
    server = LecternServer(tmp_path, {"LECTERN_MODEL": str(version / "model")})
    yield server
    server.end()


def test_documents_of_an_earlier_version_are_listed_and_answered_without_reading(
    server: LecternServer, expected: dict[str, Any]
) -> None:
    server.change(LECTERN_SERVER__EMBEDDED_WORKER="false")
    server.start()
    server.key = expected["key"]
    with server.client() as client:
        for document in expected["documents"].values():
            now = client.document(document["id"])
            assert {name: now[name] for name in LASTING} == {
                name: document[name] for name in LASTING
            }
        ready = expected["documents"]["ready"]["id"]
        for budget, before in expected["answers"].items():
            answer = client.ask(ready, expected["question"], budget=budget, max_tokens=8)
            # Later passes of a budget follow what earlier ones have read, in another way by now.
            same = len(before["answer"]) if budget == "exact" else AS_BEFORE
            assert answer["answer"][:same] == before["answer"][:same]
            assert answer["evidence"], "ranked otherwise by now, from the same attention"
            loaded, prefill = (answer["budget"][name] for name in ("loaded", "loaded_prefill"))
            assert prefill == pytest.approx(before["budget"]["loaded_prefill"], abs=1e-3)
            assert loaded == pytest.approx(before["budget"]["loaded"], abs=0.01)


def test_what_an_earlier_version_left_in_its_queue_is_read(
    server: LecternServer, expected: dict[str, Any]
) -> None:
    server.start()
    server.key = expected["key"]
    waiting = expected["documents"]["queued"]["id"]
    with server.client() as client:
        wait_until(lambda: client.document(waiting)["status"] == "ready")
        ready = client.document(expected["documents"]["ready"]["id"])
        assert ready["status"] == "ready", "its cache is as current as it was"
        assert ready["ready_at"] == expected["documents"]["ready"]["ready_at"]
