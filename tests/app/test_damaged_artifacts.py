"""No question is answered from a damaged artifact, and its document is read again."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import torch
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from app.services.services import Services
from common.errors import CorruptArtifact
from engine.document.artifact import unpack
from engine.document.cache import DocumentCache
from engine.model.loader import LoadedModel
from precompute.build import precompute_document
from precompute.config import PrecomputeConfig
from storage.artifacts.draft import MANIFEST
from storage.db.records import ArtifactRecord
from storage.storage import Storage
from tests.app.seeding import TEXT, StorageSeeder

NUM_DAMAGES, TIMES_ASKED = 1000, 3
PAGE = 4096
OTHER_TEXT = TEXT.replace("18:40", "07:15").replace("chairs", "tables")
QUESTION = {"question": "When does the gate close?", "max_tokens": 2}


# -- damage ------------------------------------------------------------------------------------


def start_of_data(path: Path) -> int:
    """Where a file's own header ends: damage after it is what the format cannot notice."""
    if path.name == MANIFEST:
        return 0
    with path.open("rb") as file:
        return 8 + int.from_bytes(file.read(8), "little")


def flip(rng: random.Random, path: Path, _: Path) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(start_of_data(path), len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def zero_a_page(rng: random.Random, path: Path, _: Path) -> None:
    data = bytearray(path.read_bytes())
    starts = range(start_of_data(path), len(data), PAGE)
    start = rng.choice([start for start in starts if any(data[start : start + PAGE])])
    end = min(start + PAGE, len(data))
    data[start:end] = bytes(end - start)
    path.write_bytes(data)


def truncate(rng: random.Random, path: Path, _: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(1, len(data))])


def empty(_: random.Random, path: Path, __: Path) -> None:
    path.write_bytes(b"")


def remove(_: random.Random, path: Path, __: Path) -> None:
    path.unlink()


def swap(_: random.Random, path: Path, others: Path) -> None:
    path.write_bytes(others.read_bytes())


DAMAGES: dict[str, Callable[[random.Random, Path, Path], None]] = {
    damage.__name__: damage for damage in (flip, zero_a_page, truncate, empty, remove, swap)
}


# -- documents ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def other_cache(model: LoadedModel) -> DocumentCache:
    """A document of as many tokens as that of `cache`."""
    settings = PrecomputeConfig(num_tail=16, num_probes=8, level2_ratio=0.1, level1_ratio=0.02)
    pages = [(1, 0, len(OTHER_TEXT))]
    return precompute_document(model, OTHER_TEXT, pages, settings, lambda *_: None)


@pytest.fixture
def other_seeder(seeder: StorageSeeder, other_cache: DocumentCache) -> StorageSeeder:
    """The same storage, filled with the other document."""
    return StorageSeeder(seeder.storage, other_cache, seeder.tenants, seeder.keys)


@pytest.fixture
def root(services: Services) -> Path:
    """Where artifacts lie."""
    return services.data_dir / "artifacts"


def current(storage: Storage, document_id: str) -> ArtifactRecord:
    artifact = storage.artifacts.current(UUID(document_id))
    assert artifact is not None
    return artifact


def load(storage: Storage, artifact: ArtifactRecord) -> DocumentCache:
    stored = storage.artifacts.load(artifact)
    return unpack(
        stored.manifest, stored.files, device=torch.device("cpu"), dtype=torch.float32
    )  # fmt: skip


def is_same(one: DocumentCache, other: DocumentCache) -> bool:
    keys = zip(one.layers, other.layers, strict=True)
    return one.text == other.text and all(torch.equal(a.keys, b.keys) for a, b in keys)


# -- tests -------------------------------------------------------------------------------------


def test_no_cache_is_loaded_from_a_damaged_file(
    client: TestClient, seeder: StorageSeeder, other_seeder: StorageSeeder, root: Path
) -> None:
    storage = seeder.storage
    one = current(storage, seeder.ready(client))
    other = current(storage, other_seeder.ready(client, OTHER_TEXT))
    sound = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    names = sorted({path.name for path in sound})
    assert len(sound) == 2 * len(names)

    rng, met = random.Random(1000), Counter[str]()
    with capture_logs() as logs:
        for _ in range(NUM_DAMAGES):
            mine, others = rng.sample([one, other], 2)
            name, damage = rng.choice(names), rng.choice(list(DAMAGES))
            path = root / mine.folder / name
            DAMAGES[damage](rng, path, root / others.folder / name)
            with pytest.raises(CorruptArtifact):
                load(storage, mine)
            path.write_bytes(sound[path])
            met[damage] += 1
            met[name] += 1

    assert [line["event"] for line in logs] == ["damaged artifact"] * NUM_DAMAGES
    assert set(met) == {*DAMAGES, *names}
    assert min(met.values()) > NUM_DAMAGES // 20
    assert is_same(load(storage, one), seeder.cache), "undamaged, it loads"
    assert is_same(load(storage, other), other_seeder.cache)


def test_no_question_is_answered_from_a_damaged_file(
    client: TestClient,
    services: Services,
    seeder: StorageSeeder,
    other_seeder: StorageSeeder,
    root: Path,
) -> None:
    seeders = {
        seeder.ready(client): seeder,
        other_seeder.ready(client, OTHER_TEXT): other_seeder,
    }
    answers = {one: ask(client, one).json()["answer"] for one in seeders}
    rng = random.Random(60)
    for damage in list(DAMAGES.values()) * TIMES_ASKED:
        services.resident_documents.clear()
        mine, others = rng.sample(list(seeders), 2)
        theirs = root / current(seeder.storage, others).folder
        path = root / current(seeder.storage, mine).folder / rng.choice(files_of(theirs))
        damage(rng, path, theirs / path.name)

        for _ in range(2):
            refused = ask(client, mine)
            assert refused.status_code == 409
            assert refused.json()["error"]["code"] == "cache_rebuilding"
        assert client.get(f"/documents/{mine}").json()["status"] == "rebuilding"
        assert ask(client, others).json()["answer"] == answers[others]
        seeders[mine].publish()  # its job was queued
        again = ask(client, mine).json()
        assert (again["answer"], again["cache_hit"]) == (answers[mine], False)
    assert client.get("/readyz").json()["checks"]["questions"]


def ask(client: TestClient, document_id: str) -> Any:
    return client.post(f"/documents/{document_id}/ask", json=QUESTION)


def files_of(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
