"""What the routes work with, put together once by the composition root."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Protocol

from fastapi import Depends, Request

from app.config import ServerConfig
from app.services.document_cache import ResidentDocuments
from app.services.question_queue import QuestionDesk
from app.services.watchers import Watchers
from engine.document.artifact import unpack
from engine.document.cache import DocumentCache
from engine.engine import Engine
from storage.storage import Storage


class Unpack(Protocol):
    """How an artifact's files become a document; see `engine.document.artifact.unpack`."""

    def __call__(
        self,
        manifest: Mapping[str, Any],
        files: Iterable[tuple[str, bytes]],
        *,
        device: Any,
        dtype: Any,
    ) -> DocumentCache: ...


@dataclass(frozen=True)
class Services:
    """Everything behind the routes; one per process.

    Attributes:
        data_dir: the folder that storage keeps its bytes in.
        fingerprint: that of artifacts which this model and these settings may answer from.
        unpack: the engine's; tests put others in its place.
    """

    config: ServerConfig
    data_dir: Path
    storage: Storage
    engine: Engine
    fingerprint: str
    resident: ResidentDocuments[DocumentCache]
    questions: QuestionDesk
    unpack: Unpack = field(default=unpack)
    watchers: Watchers = field(default_factory=Watchers)


def make_services(
    config: ServerConfig, data_dir: Path, storage: Storage, engine: Engine, fingerprint: str
) -> Services:
    """Put the services together; `create_app` starts and stops their threads.

    Args:
        fingerprint: `precompute.fingerprint.artifact_fingerprint` of model and settings.
    """
    return Services(
        config=config,
        data_dir=data_dir,
        storage=storage,
        engine=engine,
        fingerprint=fingerprint,
        resident=ResidentDocuments(config.resident_cache_bytes),
        questions=QuestionDesk(
            threads=config.concurrent_questions,
            queued=config.queued_questions,
            timeout_s=config.question_timeout_s,
        ),
    )


def services_of(request: Request) -> Services:
    """Return the services of the app that answers `request`."""
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(services_of)]
