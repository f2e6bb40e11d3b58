"""Storage on both databases: every test that asks for `db` or `storage` runs on each."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from storage.config import StorageConfig
from storage.db.database import Database
from storage.db.records import DocumentRecord
from storage.storage import Storage, assemble

Upload = Callable[..., DocumentRecord]


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    """A migrated database."""
    database = Database(url)
    yield database
    database.close()


@pytest.fixture
def storage(db: Database, tmp_path: Path) -> Iterator[Storage]:
    """All of storage over a migrated database and an empty folder."""
    opened = assemble(db, StorageConfig(tmp_path / "data"))
    yield opened
    opened.notifier.close()


@pytest.fixture
def tenant(storage: Storage) -> UUID:
    """The default tenant."""
    return storage.tenants.default()


@pytest.fixture
def upload(storage: Storage, tenant: UUID, tmp_path: Path) -> Upload:
    """Upload a text; the same text is the same document."""

    def send(
        text: str = "A text.",
        owner: UUID = tenant,
        filename: str = "a.txt",
        uploader: str = "",
    ) -> DocumentRecord:
        return send_text(storage, tmp_path, owner, text, filename, uploader)[0]

    return send


def send_text(
    storage: Storage,
    folder: Path,
    tenant: UUID,
    text: str,
    filename: str = "a.txt",
    uploader: str = "",
) -> tuple[DocumentRecord, bool]:
    """Add a text as a document."""
    data = text.encode()
    digest = hashlib.sha256(data).hexdigest()
    path = folder / f"upload-{digest[:12]}"
    path.write_bytes(data)
    return storage.documents.add(
        tenant,
        path,
        sha256=digest,
        filename=filename,
        kind="txt",
        media_type="text/plain",
        num_bytes=len(data),
        uploader=uploader,
    )
