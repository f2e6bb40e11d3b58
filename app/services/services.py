"""The services behind the routes, put together once for each process."""

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import structlog
from fastapi import Depends, Request

from app.config import ServerConfig
from app.services.background_writes import BackgroundWrites
from app.services.checks import Checks
from app.services.deleted_documents import DeletedDocuments
from app.services.document_loader import DocumentLoader
from app.services.memory_warnings import MemoryWarnings
from app.services.metrics import Metrics
from app.services.prefetcher import Prefetcher
from app.services.question_queue import QuestionQueue
from app.services.readiness import readiness_checks
from app.services.server_state import Installation, ServerState
from app.services.shares import Shares
from app.services.upload_room import UploadRoom
from app.services.watchers import WatcherThreads
from common.errors import CacheStale
from common.spans import SpanListener, ignore_spans, tell_all
from engine.document.cache import DocumentCache
from engine.document.cache_bytes import CacheBytes
from engine.model.empty_document import empty_document
from engine.model.weights_check import STALE, WeightsCheck
from engine.residents.documents import ResidentDocuments
from engine.residents.limits import MemoryConfig, MemoryLimits, Work, memory_limits
from engine.residents.staging import Staging
from engine.residents.transfer import DocumentTransfer
from engine.serving.engine_loop import EngineLoop
from ingest.limits import Limits
from storage.storage import Storage

if TYPE_CHECKING:  # for annotations alone
    from engine.engine import Engine


@dataclass(frozen=True)
class Services:
    """What the routes work with; there is one object for each process.

    Attributes:
        config: the server's settings.
        data_dir: the folder in which storage keeps its files.
        storage: documents, jobs, artifacts and all else that is stored, as the server's model and
            settings see it.
        engine: answers questions; the loop alone uses it while the server runs.
        engine_fingerprint: names all that answers follow from beside documents and questions.
        engine_loop: the thread that answers, and whether anybody waits (`activity`).
        no_document: what a chat without a document is asked about.
        resident_documents: the documents that are in memory.
        document_loader: leases them, and loads the others.
        prefetcher: loads them before anybody asks.
        memory_warnings: what to say of documents that will not stay in memory.
        question_queue: the questions that are being answered or wait.
        checks: of whether questions can be answered and documents are read.
        watchers: the threads that wait for changes of documents.
        open_requests, event_streams: how many of these each API key may have.
        upload_room: places, threads and processes of uploads.
        deleted_documents: ends what is about documents that other processes delete.
        background_writes: what is written to SQL when no caller waits for it any more.
        metrics: what this process counts, and shows at `/metrics`.
        on_span: told of every upload and question when it has ended; it never raises.
    """

    config: ServerConfig
    data_dir: Path
    storage: Storage
    engine: "Engine"
    engine_fingerprint: str
    engine_loop: EngineLoop
    no_document: DocumentCache
    resident_documents: ResidentDocuments[DocumentCache]
    document_loader: DocumentLoader
    prefetcher: Prefetcher
    memory_warnings: MemoryWarnings
    question_queue: QuestionQueue
    checks: Checks
    watchers: WatcherThreads
    open_requests: Shares
    event_streams: Shares
    upload_room: UploadRoom
    deleted_documents: DeletedDocuments
    background_writes: BackgroundWrites
    metrics: Metrics
    on_span: SpanListener


def make_services(
    config: ServerConfig,
    data_dir: Path,
    storage: Storage,
    engine: "Engine",
    extraction: Limits = Limits(),
    sizes: CacheBytes | None = None,
    pass_tokens: int = 0,
    weights_check: WeightsCheck | None = None,
    on_span: SpanListener = ignore_spans,
) -> Services:
    """Put the services together; `create_app` starts and stops their threads.

    Args:
        data_dir: the folder in which storage keeps its files.
        storage: as the engine's model and the settings see it (`Storage.of`).
        extraction: limits of the extraction of text.
        sizes: bytes that documents take in memory; None if that is not known.
        pass_tokens: that a worker of this process sends through the model at once.
        weights_check: of whether the model's files are those that were loaded; None for no check.
        on_span: told of every upload and question beside the metrics.
    """
    limits = memory_limits(engine.model, _memory_config(config), _work(config, pass_tokens))
    staging = Staging(engine.model.device, limits.staging_bytes)
    residents = ResidentDocuments[DocumentCache](
        limits.device_bytes, limits.host_bytes, DocumentTransfer(staging)
    )
    _tell(limits, sizes)
    background_writes = BackgroundWrites()
    loader = DocumentLoader(
        storage, engine.model, residents, staging, background_writes, weights_check
    )
    metrics = Metrics(version("lectern"), engine.model.name, engine.model.device.type)
    engine_loop = EngineLoop(engine, config.concurrent_questions, metrics.observe_step)
    residents.listen(engine_loop)
    question_queue = QuestionQueue(
        engine_loop,
        queued=config.queued_questions,
        timeout_s=config.question_timeout_s,
    )
    if weights_check is not None:
        weights_check.on_difference(lambda: question_queue.cancel_running(CacheStale(STALE)))
    metrics.registry.register(
        ServerState(
            data_dir,
            storage,
            engine_loop,
            residents,
            question_queue,
            engine.fallbacks.counts,
            Installation(storage),
        )
    )
    return Services(
        config=config,
        data_dir=data_dir,
        storage=storage,
        engine=engine,
        engine_fingerprint=engine.fingerprint,
        engine_loop=engine_loop,
        no_document=empty_document(engine.model),
        resident_documents=residents,
        document_loader=loader,
        prefetcher=Prefetcher(loader.lease),
        memory_warnings=MemoryWarnings(sizes, residents),
        question_queue=question_queue,
        checks=Checks(
            readiness_checks(
                config,
                data_dir,
                storage,
                engine_loop.check,
                question_queue.problem,
                question_queue.draining_s,
                weights_check,
            )
        ),
        watchers=WatcherThreads(config.event_streams),
        open_requests=Shares(
            "requests", total=config.max_connections, per_key=config.requests_per_key
        ),
        event_streams=Shares(
            "event streams", total=config.event_streams, per_key=config.event_streams_per_key
        ),
        upload_room=UploadRoom(config, extraction, question_queue.draining_s),
        deleted_documents=DeletedDocuments(
            residents,
            storage.documents,
            storage.tenants,
            engine.turn_states,
            question_queue,
        ),
        background_writes=background_writes,
        metrics=metrics,
        on_span=tell_all(metrics.observe_span, on_span),
    )


def _memory_config(config: ServerConfig) -> MemoryConfig:
    return MemoryConfig(
        device_share=config.memory_share,
        device_bytes=config.device_cache_bytes,
        host_bytes=config.host_cache_bytes,
        staging_bytes=config.staging_bytes,
    )


def _work(config: ServerConfig, pass_tokens: int) -> Work:
    """What questions take at most, with a token for two characters of a question."""
    answer = config.max_answer_tokens + config.max_thinking_tokens
    question = config.max_question_chars // 2
    return Work(config.concurrent_questions, question + answer, max(pass_tokens, question))


def _tell(limits: MemoryLimits, sizes: CacheBytes | None) -> None:
    """Log how much memory documents may have, and how many tokens of this model that is."""
    log = structlog.get_logger("lectern.memory")
    for tier, num_bytes in (("device", limits.device_bytes), ("host", limits.host_bytes)):
        num_tokens = None if sizes is None else sizes.tokens_in(num_bytes)
        log.info("memory for documents", tier=tier, num_bytes=num_bytes, num_tokens=num_tokens)
    if limits.device_bytes == 0:
        log.warning("the model leaves no memory for documents: no question can be answered")


async def services_of(request: Request) -> Services:
    """Return the services of the app that answers this request."""
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(services_of)]
