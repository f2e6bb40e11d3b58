"""The services behind the routes, put together once for each process."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from app.config import ServerConfig
from app.services.background_writes import BackgroundWrites
from app.services.document_cache import LoadedDocuments
from app.services.document_loader import DocumentLoader
from app.services.question_queue import QuestionQueue
from app.services.watchers import WatcherThreads
from engine.document.cache import DocumentCache
from engine.engine import Engine
from storage.storage import Storage


@dataclass(frozen=True)
class Services:
    """What the routes work with; there is one object for each process.

    Attributes:
        config: the server's settings.
        data_dir: the folder in which storage keeps its files.
        storage: documents, jobs, artifacts and all else that is stored.
        engine: answers questions.
        loaded_documents: the documents that are in memory.
        document_loader: loads the others.
        question_queue: the questions that are being answered or wait.
        watchers: the threads that wait for changes of documents.
        background_writes: what is written to SQL when no caller waits for it any more.
    """

    config: ServerConfig
    data_dir: Path
    storage: Storage
    engine: Engine
    loaded_documents: LoadedDocuments[DocumentCache]
    document_loader: DocumentLoader
    question_queue: QuestionQueue
    watchers: WatcherThreads = field(default_factory=WatcherThreads)
    background_writes: BackgroundWrites = field(default_factory=BackgroundWrites)


def make_services(
    config: ServerConfig, data_dir: Path, storage: Storage, engine: Engine, fingerprint: str
) -> Services:
    """Put the services together; `create_app` starts and stops their threads.

    Args:
        data_dir: the folder in which storage keeps its files.
        fingerprint: of model and settings, from `precompute.fingerprint.artifact_fingerprint`.
    """
    loaded = LoadedDocuments[DocumentCache](config.resident_cache_bytes)
    return Services(
        config=config,
        data_dir=data_dir,
        storage=storage,
        engine=engine,
        loaded_documents=loaded,
        document_loader=DocumentLoader(storage, engine.model, fingerprint, loaded),
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
