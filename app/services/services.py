"""The services behind the routes, put together once for each process."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Protocol

from fastapi import Depends, Request

from app.config import ServerConfig
from app.services.document_cache import LoadedDocuments
from app.services.question_queue import QuestionQueue
from app.services.watchers import WatcherThreads
from engine.document.artifact import unpack
from engine.document.cache import DocumentCache
from engine.engine import Engine
from storage.storage import Storage


class Unpack(Protocol):
    """Makes a document's cache of an artifact's files; see `engine.document.artifact.unpack`."""

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
    """What the routes work with; there is one object for each process.

    Attributes:
        config: the server's settings.
        data_dir: the folder in which storage keeps its files.
        storage: documents, jobs, artifacts and all else that is stored.
        engine: answers questions.
        fingerprint: names the model and the settings; only artifacts with this fingerprint are
            used for answers.
        loaded_documents: the documents that are in memory.
        question_queue: the questions that are being answered or wait.
        unpack: makes a document's cache of an artifact's files; tests replace it.
        watchers: the threads that wait for changes of documents.
    """

    config: ServerConfig
    data_dir: Path
    storage: Storage
    engine: Engine
    fingerprint: str
    loaded_documents: LoadedDocuments[DocumentCache]
    question_queue: QuestionQueue
    unpack: Unpack = field(default=unpack)
    watchers: WatcherThreads = field(default_factory=WatcherThreads)


def make_services(
    config: ServerConfig, data_dir: Path, storage: Storage, engine: Engine, fingerprint: str
) -> Services:
    """Put the services together; `create_app` starts and stops their threads.

    Args:
        data_dir: the folder in which storage keeps its files.
        fingerprint: of model and settings, from `precompute.fingerprint.artifact_fingerprint`.
    """
    return Services(
        config=config,
        data_dir=data_dir,
        storage=storage,
        engine=engine,
        fingerprint=fingerprint,
        loaded_documents=LoadedDocuments(config.resident_cache_bytes),
        question_queue=QuestionQueue(
            threads=config.concurrent_questions,
            queued=config.queued_questions,
            timeout_s=config.question_timeout_s,
        ),
    )


def services_of(request: Request) -> Services:
    """Return the services of the app that answers this request."""
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(services_of)]
