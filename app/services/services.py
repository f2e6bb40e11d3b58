"""The services behind the routes, put together once for each process."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from app.config import ServerConfig
from app.services.background_writes import BackgroundWrites
from app.services.checks import Checks
from app.services.document_loader import DocumentLoader
from app.services.question_queue import QuestionQueue
from app.services.readiness import readiness_checks
from app.services.shares import Shares
from app.services.upload_room import UploadRoom
from app.services.watchers import WatcherThreads
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.residents.documents import ResidentDocuments
from engine.residents.transfer import DocumentTransfer
from ingest.limits import Limits
from storage.storage import Storage


@dataclass(frozen=True)
class Services:
    """What the routes work with; there is one object for each process.

    Attributes:
        config: the server's settings.
        data_dir: the folder in which storage keeps its files.
        storage: documents, jobs, artifacts and all else that is stored, as the server's model and
            settings see it.
        engine: answers questions.
        resident_documents: the documents that are in memory.
        document_loader: leases them, and loads the others.
        question_queue: the questions that are being answered or wait.
        checks: of whether questions can be answered and documents are read.
        watchers: the threads that wait for changes of documents.
        open_requests, event_streams: how many of these each API key may have.
        upload_room: places, threads and processes of uploads.
        background_writes: what is written to SQL when no caller waits for it any more.
    """

    config: ServerConfig
    data_dir: Path
    storage: Storage
    engine: Engine
    resident_documents: ResidentDocuments[DocumentCache]
    document_loader: DocumentLoader
    question_queue: QuestionQueue
    checks: Checks
    watchers: WatcherThreads
    open_requests: Shares
    event_streams: Shares
    upload_room: UploadRoom
    background_writes: BackgroundWrites


def make_services(
    config: ServerConfig,
    data_dir: Path,
    storage: Storage,
    engine: Engine,
    extraction: Limits = Limits(),
) -> Services:
    """Put the services together; `create_app` starts and stops their threads.

    Args:
        data_dir: the folder in which storage keeps its files.
        storage: as the engine's model and the settings see it (`Storage.of`).
        extraction: limits of the extraction of text.
    """
    residents = ResidentDocuments[DocumentCache](
        config.resident_cache_bytes, 0, DocumentTransfer(engine.model.device)
    )
    background_writes = BackgroundWrites()
    question_queue = QuestionQueue(
        threads=config.concurrent_questions,
        queued=config.queued_questions,
        timeout_s=config.question_timeout_s,
    )
    return Services(
        config=config,
        data_dir=data_dir,
        storage=storage,
        engine=engine,
        resident_documents=residents,
        document_loader=DocumentLoader(storage, engine.model, residents, background_writes),
        question_queue=question_queue,
        checks=Checks(readiness_checks(config, data_dir, storage, engine.check, question_queue)),
        watchers=WatcherThreads(config.event_streams),
        open_requests=Shares(
            "requests", total=config.max_connections, per_key=config.requests_per_key
        ),
        event_streams=Shares(
            "event streams", total=config.event_streams, per_key=config.event_streams_per_key
        ),
        upload_room=UploadRoom(config, extraction, question_queue.draining_s),
        background_writes=background_writes,
    )


async def services_of(request: Request) -> Services:
    """Return the services of the app that answers this request."""
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(services_of)]
