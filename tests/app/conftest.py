"""What the tests of the HTTP side share: the real app over real storage and a tiny real model."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import torch
from argon2 import PasswordHasher
from starlette.testclient import TestClient

from app.admin.password import ensure_password
from app.config import ServerConfig
from app.factory import create_app
from app.services.services import Services, make_services
from cli.settings import Settings
from engine.config import ModelConfig
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.loader import LoadedModel, load_model
from precompute.build import precompute_document
from precompute.config import PrecomputeConfig
from storage.db.database import Database
from storage.storage import Storage, assemble
from tests.app.live import serving
from tests.app.seeding import FINGERPRINT, TEXT, StorageSeeder
from tests.databases import copied
from tests.models import FAMILIES, byte_tokenizer, random_model


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio, as the server does."""
    return "asyncio"


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """A tiny random model: its answers are gibberish, its machinery is the real one."""
    folder = tmp_path_factory.mktemp("model")
    random_model(FAMILIES["llama"]).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return load_model(ModelConfig(str(folder), device="cpu"))


@pytest.fixture(scope="session")
def cache(model: LoadedModel) -> DocumentCache:
    """A document that the model has read."""
    settings = PrecomputeConfig(num_tail=16, num_probes=8, level2_ratio=0.1, level1_ratio=0.02)
    return precompute_document(model, TEXT, [(1, 0, len(TEXT))], settings, lambda *_: None)


def small_server(data_dir: Path) -> Settings:
    """Settings of a small server that works on all questions."""
    server = ServerConfig(
        max_upload_bytes=100_000, max_answer_tokens=64, concurrent_questions=1, queued_questions=2
    )
    return Settings(data_dir=data_dir, server=server, stored_answer_hours=0)


def new_storage(settings: Settings, migrated: bytes) -> Storage:
    """Make storage in a folder of its own."""
    settings.data_dir.mkdir()
    database = Database(copied(migrated, settings.data_dir / "lectern.sqlite3"))
    return assemble(database, settings.storage()).of(FINGERPRINT)


def new_services(settings: Settings, storage: Storage, model: LoadedModel) -> Services:
    """Make services around the real engine; a worker has just shown that it lives."""
    storage.processes.beat("a worker", "worker", FINGERPRINT)
    return make_services(settings.server, settings.data_dir, storage, Engine(model))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of a small server; tests replace some of them."""
    return small_server(tmp_path / "data")


@pytest.fixture
def storage(settings: Settings, migrated_sqlite: bytes) -> Iterator[Storage]:
    """Real storage in a folder of its own."""
    storage = new_storage(settings, migrated_sqlite)
    yield storage
    storage.close()


@pytest.fixture
def services(settings: Settings, storage: Storage, model: LoadedModel) -> Services:
    """Services around the real engine."""
    return new_services(settings, storage, model)


@pytest.fixture
def seeder(services: Services, cache: DocumentCache) -> StorageSeeder:
    """Makes tenants, keys and ready documents."""
    return StorageSeeder(services.storage, cache)


@pytest.fixture
def client(services: Services, seeder: StorageSeeder) -> Iterator[TestClient]:
    """A client with a key of the first tenant, in process."""
    with TestClient(create_app(services), headers=seeder.headers()) as client:
        yield client


@dataclass(frozen=True)
class SharedApp:
    """An app for all tests of a module that only ask of it what leaves it as it was.

    Attributes:
        document_id: a ready document.
    """

    client: TestClient
    seeder: StorageSeeder
    document_id: str


@pytest.fixture(scope="module")
def shared_app(
    tmp_path_factory: pytest.TempPathFactory,
    migrated_sqlite: bytes,
    model: LoadedModel,
    cache: DocumentCache,
) -> Iterator[SharedApp]:
    """One app with a ready document, which is not made anew for each test."""
    torch.set_num_threads(1)  # as each test does, though only after its module's fixtures
    settings = small_server(tmp_path_factory.mktemp("shared") / "data")
    with closing(new_storage(settings, migrated_sqlite)) as storage:
        seeder = StorageSeeder(storage, cache)
        app = create_app(new_services(settings, storage, model))
        with TestClient(app, headers=seeder.headers()) as client:
            yield SharedApp(client, seeder, seeder.ready(client))


@pytest.fixture
def other_tenant(client: TestClient, seeder: StorageSeeder) -> dict[str, str]:
    """The headers of another tenant."""
    return seeder.headers("other_tenant")


@pytest.fixture
def password(services: Services, monkeypatch: pytest.MonkeyPatch) -> str:
    """The dashboard's password, hashed in less time than in earnest."""
    cheap = partial(PasswordHasher, time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr("app.admin.password.PasswordHasher", cheap)
    made = ensure_password(services.data_dir)
    assert made is not None
    return made


@pytest.fixture
def address(services: Services) -> Iterator[str]:
    """The app on a real port; tests may have replaced parts of `services` before."""
    with serving(create_app(services)) as address:
        yield address
