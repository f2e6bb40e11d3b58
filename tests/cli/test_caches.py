"""`lectern cache` as its user types it, on a database of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.settings import Settings
from storage.db.records import DocumentRecord
from storage.storage import Storage, open_storage
from tests.storage.conftest import send_text
from tests.storage.publishing import publish

Run = Callable[..., tuple[int, str, str]]
ONE, TWO, THREE = "1" * 64, "2" * 64, "23" * 32


@pytest.fixture(autouse=True)
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    """The server's storage, open beside the command as while it runs."""
    monkeypatch.setenv("LECTERN_DATA_DIR", str(tmp_path / "data"))
    opened = open_storage(Settings().storage())
    yield opened
    opened.close()


@pytest.fixture
def documents(storage: Storage, tmp_path: Path) -> list[DocumentRecord]:
    """Two documents: both have a cache of the first settings, one has another of the second."""
    tenant = storage.tenants.default()
    made = [send_text(storage, tmp_path, tenant, text)[0] for text in ("One.", "Two.")]
    for document in made:
        publish(storage, document, fingerprint=ONE)
    storage.of(TWO).jobs.enqueue(made[0].id)
    publish(storage.of(TWO), made[0], fingerprint=TWO)
    return made


def names(storage: Storage) -> set[str]:
    return {one.fingerprint for one in storage.space.stored()}


def test_what_is_stored_is_listed(
    lectern: Run, storage: Storage, documents: list[DocumentRecord]
) -> None:
    with storage.processes.alive("server", "server", TWO):
        while not storage.processes.living("server"):
            pass
        code, out, err = lectern("cache", "list")
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()[1:]]
    assert [row[0] for row in rows] == [ONE[:12], TWO[:12]], "the largest first"
    assert [row[1] for row in rows] == ["2", "1"]
    assert ["running" in row for row in rows] == [False, True]


def test_nothing_to_list_is_said(lectern: Run) -> None:
    assert lectern("cache", "list") == (0, "No caches are stored here.\n", "")


def test_caches_are_removed_by_name(
    lectern: Run, storage: Storage, documents: list[DocumentRecord]
) -> None:
    code, out, _ = lectern("cache", "drop", ONE[:5])
    assert code == 0
    assert out.startswith("Removed 2 caches, ")
    assert names(storage) == {TWO}
    assert storage.of(ONE).documents.find(documents[1].id).is_stale, "the document stays"
    assert storage.artifacts.collect_garbage() == 0, "no folder is left"


def test_without_a_name_what_runs_is_kept(
    lectern: Run, storage: Storage, documents: list[DocumentRecord]
) -> None:
    storage.processes.beat("server", "server", ONE)
    code, out, err = lectern("cache", "drop")
    assert (code, err) == (0, "")
    assert out.startswith("Removed 1 caches, ")
    assert names(storage) == {ONE}


def test_caches_in_use_are_not_removed(
    lectern: Run, storage: Storage, documents: list[DocumentRecord]
) -> None:
    storage.processes.beat("server", "server", ONE)
    code, _, err = lectern("cache", "drop", ONE)
    assert code == 1
    assert "running process" in err
    assert names(storage) == {ONE, TWO}


@pytest.mark.parametrize(
    ("name", "problem", "ended"), [("9", "Nothing", 4), ("2", "2 fingerprints", 1)]
)
def test_a_name_must_fit_one(
    lectern: Run,
    storage: Storage,
    documents: list[DocumentRecord],
    name: str,
    problem: str,
    ended: int,
) -> None:
    storage.of(THREE).jobs.enqueue(documents[1].id)
    publish(storage.of(THREE), documents[1], fingerprint=THREE)
    code, _, err = lectern("cache", "drop", name)
    assert code == ended
    assert problem in err
    assert len(names(storage)) == 3


def test_what_interrupted_work_has_left_is_removed(
    lectern: Run, storage: Storage, documents: list[DocumentRecord], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    left = data / "artifacts" / f"{documents[0].id}.{'a' * 32}.draft"
    left.mkdir()
    (data / "incoming").mkdir()
    (data / "incoming" / "upload-x").touch()
    kept = {path.name for path in (data / "artifacts").iterdir()} - {left.name}
    code, out, _ = lectern("cache", "gc")
    assert code == 0
    assert out.endswith("Removed 1 unfinished caches and 1 partial uploads.\n")
    assert {path.name for path in (data / "artifacts").iterdir()} == kept
    assert list((data / "incoming").iterdir()) == []


def test_documents_without_a_cache_are_queued_for_the_running_server(
    lectern: Run, storage: Storage, documents: list[DocumentRecord]
) -> None:
    storage.processes.beat("server", "server", TWO)
    storage.processes.beat("worker", "worker", TWO)
    assert lectern("cache", "rebuild")[:2] == (
        0,
        "Queued 1 documents, 50 tokens, to be read again.\n",
    )
    job = storage.of(TWO).jobs.claim("worker", 30)
    assert job is not None
    assert (job.document_id, job.fingerprint) == (documents[1].id, TWO)
    assert lectern("cache", "rebuild", "--fingerprint", "1")[1].startswith("Queued 0 documents")


def test_with_several_settings_running_one_has_to_be_named(
    lectern: Run, storage: Storage, documents: list[DocumentRecord]
) -> None:
    storage.processes.beat("one", "server", ONE)
    storage.processes.beat("two", "server", TWO)
    code, _, err = lectern("cache", "rebuild")
    assert code == 1
    assert "name one" in err
    assert lectern("cache", "rebuild", "--fingerprint", TWO)[0] == 0


def test_without_a_running_server_the_settings_decide(
    lectern: Run, storage: Storage, documents: list[DocumentRecord]
) -> None:
    code, out, _ = lectern("cache", "rebuild")
    assert (code, out) == (0, "Queued 2 documents, 100 tokens, to be read again.\n")
    job = storage.jobs.claim("worker", 30)
    assert job is not None
    assert job.fingerprint not in ("", ONE, TWO)
