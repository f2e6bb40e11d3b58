"""Put tenants and documents into storage, as uploads and a worker would do."""

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

from starlette.testclient import TestClient

from engine.document.artifact import pack
from engine.document.cache import DocumentCache
from storage.db.records import DocumentRecord, JobRecord
from storage.storage import Storage
from storage.tenants import Tenants

FINGERPRINT = "fingerprint-of-the-tests"
TEXT = "The gate of the east wing closes at 18:40. " + " ".join(
    f"Room {number} holds {number * 7 % 91} chairs." for number in range(20)
)


@dataclass
class StorageSeeder:
    """Makes tenants, keys, documents and artifacts."""

    storage: Storage
    cache: DocumentCache
    tenants: dict[str, UUID] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)

    def headers(self, name: str = "owner") -> dict[str, str]:
        """The key of a tenant, who is made on first use."""
        if name not in self.keys:
            self.tenants[name] = Tenants(self.storage.db).create(name)
            self.keys[name], _ = self.storage.keys.create(self.tenants[name], name)
        return {"authorization": f"Bearer {self.keys[name]}"}

    def upload(self, client: TestClient, text: str = TEXT, name: str = "a.txt") -> str:
        """Upload a text over HTTP; return its document's id."""
        response = client.post("/documents", files={"file": (name, text.encode())})
        assert response.status_code == 202, response.text
        return str(response.json()["id"])

    def ready(
        self,
        client: TestClient,
        text: str = TEXT,
        fingerprint: str = FINGERPRINT,
        warnings: dict[str, str] | None = None,
    ) -> str:
        """Upload a text and publish its cache; return its id."""
        document_id = self.upload(client, text)
        self.publish(fingerprint, warnings=warnings)
        return document_id

    def add(self, name: str) -> DocumentRecord:
        """Put a document into storage without HTTP."""
        self.headers()
        with tempfile.NamedTemporaryFile() as file:
            file.write(TEXT.encode())
            file.flush()
            document, _ = self.storage.documents.add(
                self.tenants["owner"],
                Path(file.name),
                sha256=hashlib.sha256(TEXT.encode()).hexdigest(),
                filename=name,
                kind="txt",
                media_type="text/plain",
                num_bytes=len(TEXT),
            )
        return document

    def delete(self, document_id: str) -> None:
        """Delete a document as another process would."""
        self.storage.documents.delete(self.tenants["owner"], UUID(document_id))

    def publish(
        self,
        fingerprint: str = FINGERPRINT,
        after: Callable[[JobRecord], object] = lambda job: None,
        warnings: dict[str, str] | None = None,
        extra: Mapping[str, bytes] = MappingProxyType({}),
    ) -> None:
        """Do the next job as a worker would, with the cache that was read before.

        Args:
            extra: further files of the artifact, by name.
        """
        job = self._claim()
        after(job)
        manifest, files = pack(self.cache, "float32")
        with self.storage.artifacts.draft(job.document_id, fingerprint) as draft:
            for name, data in (*files, *extra.items()):
                draft.write(name, data)
            draft.publish(
                job,
                manifest,
                kv_bytes=self.cache.kv_bytes,
                num_tokens=self.cache.num_tokens,
                num_pages=len(self.cache.pages),
                reading_ms=1234.5,
                warnings=warnings,
            )

    def fail(self, code: str, message: str) -> None:
        """End the next job as a worker would that cannot read the file."""
        self.storage.jobs.fail(self._claim(), code, message)

    def _claim(self) -> JobRecord:
        job = self.storage.jobs.claim("test", 60.0)
        assert job is not None
        return job
