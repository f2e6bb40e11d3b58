"""Put a server or a worker together as the settings say, and run it until it is told to stop.

Only the commands that need a model import this module, because importing torch takes seconds.
"""

import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog
from fastapi import FastAPI
from rich.console import Console
from transformers.utils.logging import disable_progress_bar

from app.admin.password import ensure_password
from app.factory import create_app
from app.http.server import Server, make_server
from app.services.residence import ServerResidence
from app.services.services import Services, make_services
from cli.listener import CannotServe, Secrets, url_of
from cli.settings import Settings
from cli.show import say
from cli.tracing import exported_spans
from cli.worker_metrics import counted_readings
from cli.worker_process import worker_command, worker_process
from cli.worker_thread import WorkerThread
from common.logging import configure
from common.spans import SpanListener, ignore_spans, tell_all
from engine.decode.model_variants import load_compiler
from engine.engine import Engine
from engine.model.loader import LoadedModel, Meanwhile, load_model
from engine.model.weights_check import WeightsCheck
from precompute.build import most_document_chars
from precompute.fingerprint import artifact_fingerprint
from precompute.prefill_dtype import prefill_dtype
from precompute.sketch import cache_bytes
from storage.files import make_files_private
from storage.processes import SERVER
from storage.storage import Storage, open_storage
from workers.model_artifact_builder import (
    ModelArtifactBuilder,
    extraction_limits,
    with_most_chars,
)
from workers.reading_metrics import ReadingMetrics
from workers.residence import Residence
from workers.worker import Worker

REMEMBERED_WEIGHTS = "weights.json"  # in the data folder: digests of the model's files
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 40.0
SWITCH_S = 0.0002


@dataclass(frozen=True)
class Stack:
    """All parts of a server in one process, which is not running yet."""

    settings: Settings
    storage: Storage
    services: Services
    app: FastAPI
    worker: Worker | None


def open_engine(settings: Settings) -> Engine:
    """Load the model that the settings name, and make an engine for it."""
    return _open_engine(settings, None)


def open_checked_engine(
    settings: Settings, meanwhile: Meanwhile | None = None
) -> tuple[Engine, WeightsCheck]:
    """Load the model without hashing files that look unchanged.

    Args:
        meanwhile: see `load_model`.
    Returns: the engine, and a check of the model's files, which has to be started.
    """
    remembered = settings.data_dir / REMEMBERED_WEIGHTS
    engine = _open_engine(settings, remembered, meanwhile)
    model = engine.model
    assert model.folder is not None  # it was loaded from one
    return engine, WeightsCheck(model.folder, model.weights, remembered)


def _open_engine(
    settings: Settings, remembered: Path | None, meanwhile: Meanwhile | None = None
) -> Engine:
    disable_progress_bar()  # type: ignore[no-untyped-call]  # it would mix with our output
    return Engine(load_model(settings.model_files(), remembered, meanwhile), settings.decoding)


def open_stack(settings: Settings, on_span: SpanListener = ignore_spans) -> Stack:
    """Open storage, load the model and make the app, and a worker if the settings embed one.

    Args:
        on_span: told of uploads, questions and readings beside the metrics.
    """
    make_files_private()
    storage = open_storage(settings.storage())
    started_s = time.monotonic()
    decoding = settings.decoding
    compiles = decoding.batch_graphs and decoding.compiled_layers is not False
    engine, weights_check = open_checked_engine(settings, load_compiler if compiles else None)
    model = engine.model
    duration_ms = round(1000 * (time.monotonic() - started_s), 1)
    structlog.get_logger("lectern.server").info("model loaded", duration_ms=duration_ms)
    fingerprint = artifact_fingerprint(model, settings.precompute)
    storage = storage.of(fingerprint, weights_check.confirm)
    tell_unread(storage)
    most_chars = most_document_chars(model, settings.precompute)
    extraction = with_most_chars(extraction_limits(settings.worker), most_chars)
    reads_here = settings.server.embedded_worker and not settings.server.worker_process
    services = make_services(
        settings.server_for_model(),
        settings.data_dir,
        storage,
        engine,
        extraction,
        cache_bytes(model.spec, model.plan, settings.precompute, model.dtype),
        settings.precompute.chunk_tokens if reads_here else 0,
        weights_check,
        on_span,
    )
    worker = None
    if reads_here:
        residence = ServerResidence(services.resident_documents, storage.readable)
        counted = ReadingMetrics(services.metrics.registry).observe_span
        worker = make_worker(
            settings, storage, engine, weights_check, residence, tell_all(counted, on_span)
        )
    # Hashing takes the interpreter and the processors from the compiler: one after the other.
    services.engine_loop.on_prepared.append(weights_check.start)
    return Stack(settings, storage, services, create_app(services), worker)


def open_worker(settings: Settings, on_span: SpanListener = ignore_spans) -> tuple[Worker, Storage]:
    """Open storage and load the model for a worker in a process of its own.

    Args:
        on_span: told of readings.
    """
    make_files_private()
    storage = open_storage(settings.storage())
    engine, weights_check = open_checked_engine(settings)
    fingerprint = artifact_fingerprint(engine.model, settings.precompute)
    storage = storage.of(fingerprint, weights_check.confirm)
    tell_unread(storage)
    worker = make_worker(settings, storage, engine, weights_check, on_span=on_span)
    weights_check.start()
    return worker, storage


def tell_unread(storage: Storage) -> None:
    """Log how much would have to be read again with the present model and settings, if anything.

    Nothing is read again by this: a question does that, or `lectern cache rebuild`.
    """
    unread = storage.space.unread()
    if unread.document_ids:
        structlog.get_logger("lectern.storage").warning(
            "documents have no cache of the present model and settings",
            num_documents=len(unread.document_ids),
            num_tokens=unread.num_tokens,
            hint="asked, they are read again; `lectern cache` lists, removes and rebuilds caches",
        )


def make_worker(
    settings: Settings,
    storage: Storage,
    engine: Engine,
    weights_check: WeightsCheck,
    residence: Residence | None = None,
    on_span: SpanListener = ignore_spans,
) -> Worker:
    """Make a worker for an engine whose model is loaded already.

    Args:
        weights_check: once the model's files differ, the worker claims nothing.
        residence: the memory of the server in this process; None if there is none.
        on_span: told of readings.
    """

    def usable_model() -> LoadedModel:
        weights_check.check_work()
        return engine.model

    if prefill_dtype(engine.model, settings.precompute) != engine.model.dtype:
        structlog.get_logger("lectern.worker").info("documents are prefilled with bfloat16 matmuls")
    limits = extraction_limits(settings.worker)
    builder = ModelArtifactBuilder(usable_model, settings.precompute, limits, engine.turns)
    return Worker(storage, builder, settings.worker, residence, on_span)


def make_secrets(stack: Stack) -> Secrets:
    """Make the first API key and the dashboard's password, unless there are some."""
    storage = stack.storage
    key = None if storage.keys.any() else storage.keys.create_default("first start")
    return Secrets(key, ensure_password(stack.settings.data_dir))


def share_interpreter() -> None:
    """Let threads take turns in the interpreter often.

    A thread that launches work on a GPU lets go of the interpreter at every launch. Another one
    that computes in Python would keep it for 5 ms by default, a launch's time hundreds of times.
    """
    sys.setswitchinterval(SWITCH_S)


def freeze_garbage_collector() -> None:
    """Leave what exists by now, which stays as long as the process, out of garbage collections.

    One of all objects takes hundreds of milliseconds with the libraries that are loaded, and stops
    every thread meanwhile. It would find next to nothing: 2,000 objects of 600,000.
    """
    gc.freeze()
    gc.enable()  # `lectern serve` is prepared without collections


def run_server(console: Console, settings: Settings, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM; answers that have begun may finish first.

    Args:
        listener: a bound socket.
    Raises: UnsupportedModel.
    """
    configure(settings.log_level, as_json=settings.log_json)
    share_interpreter()
    say(console, f"Loading {settings.model_files().path} ...")
    with exported_spans() as on_span:
        worker_ended = _serve(console, open_stack(settings, on_span), listener)
    if not worker_ended.is_set():
        _end_process()


def _serve(console: Console, stack: Stack, listener: socket.socket) -> threading.Event:
    """Serve until a signal ends it; return an event that is set if the worker has ended, too."""
    url = url_of(listener)
    _show_secrets(console, make_secrets(stack))
    say(
        console,
        f"Lectern serves on {url} (reading room; dashboard: {url}/admin). Ctrl-C stops it.",
    )
    server = _make_server(stack, listener)
    # Compiling one MLP leaves 160,000 objects, of which a full collection takes 80 ms on a CPU.
    stack.services.engine_loop.on_prepared.append(freeze_garbage_collector)
    hurry = threading.Event()
    with _ending_signals(hurry), _running(stack, hurry) as worker_ended, _worker_process(stack):
        if not hurry.is_set():  # by a signal from before the server listens to them
            server.run(sockets=[listener])
        if server.is_hurried:
            hurry.set()
    return worker_ended


def run_worker(console: Console, settings: Settings) -> None:
    """Read waiting documents until SIGINT or SIGTERM."""
    configure(settings.log_level, as_json=settings.log_json)
    share_interpreter()
    say(console, f"Loading {settings.model_files().path} ...")
    stop, hurry = threading.Event(), threading.Event()
    with (
        exported_spans() as on_span,
        counted_readings(settings.worker.metrics_host, settings.worker.metrics_port) as count,
    ):
        worker, storage = open_worker(settings, tell_all(count, on_span))
        say(console, "Waiting for documents. Ctrl-C stops the worker.")
        thread = WorkerThread(worker)
        freeze_garbage_collector()
        with closing(storage), _ending_signals(stop, hurry):
            thread.start()
            thread.wait(stop)
            has_ended = thread.stop(hurry, STOP_TIMEOUT_S)
    if not has_ended:
        _end_process()


@contextmanager
def serve_with_secrets(
    settings: Settings, listener: socket.socket
) -> Iterator[tuple[str, Secrets]]:
    """Serve on a thread while the block runs; the block gets the server's URL and its secrets.

    Args:
        listener: a bound socket.
    Raises: CannotServe, UnsupportedModel.
    """
    stack = open_stack(settings)
    secrets = make_secrets(stack)
    with serve_in_background(stack, listener) as url:
        yield url, secrets


@contextmanager
def serve_in_background(stack: Stack, listener: socket.socket) -> Iterator[str]:
    """Serve on a thread while the block runs; the block gets the server's URL.

    Args:
        listener: a bound socket.
    Raises: CannotServe.
    """
    server = _make_server(stack, listener)
    thread = threading.Thread(target=server.run, args=([listener],), name="server", daemon=True)
    with _running(stack, threading.Event()):
        thread.start()
        try:
            _wait_until_started(server, thread)
            yield url_of(listener)
        finally:
            server.handle_exit(signal.SIGTERM, None)
            thread.join(STOP_TIMEOUT_S)


def _show_secrets(console: Console, secrets: Secrets) -> None:
    """Print the secrets that the first start has made, because only their hashes are stored."""
    if secrets.api_key is not None:
        say(console, f"API key, shown only now:            {secrets.api_key}")
    if secrets.admin_password is not None:
        say(console, f"Dashboard password, shown only now: {secrets.admin_password}")


def _make_server(stack: Stack, listener: socket.socket) -> Server:
    host, port = listener.getsockname()[:2]
    return make_server(stack.app, stack.services, host=host, port=port)


@contextmanager
def _running(stack: Stack, hurry: threading.Event) -> Iterator[threading.Event]:
    """Run the embedded worker, if there is one, while the block runs; then close storage.

    The block gets an event that is set once the worker has ended.

    Args:
        hurry: when it is set, the worker's documents go back to the queue without waiting for it.
    """
    storage = stack.storage
    thread = WorkerThread(stack.worker) if stack.worker else None
    worker_ended = threading.Event()
    with closing(storage), storage.processes.alive(storage.process, SERVER, storage.fingerprint):
        if thread is not None:
            thread.start()
        try:
            yield worker_ended
        finally:
            if thread is None or thread.stop(hurry, STOP_TIMEOUT_S):
                worker_ended.set()


@contextmanager
def _worker_process(stack: Stack) -> Iterator[None]:
    """Run a worker in a process of its own while the block runs, if the settings say so."""
    server = stack.settings.server
    with ExitStack() as within:
        if server.embedded_worker and server.worker_process:
            parameters = stack.services.engine.model.model.parameters()
            weights_bytes = sum(parameter.nbytes for parameter in parameters)
            command = worker_command(stack.settings.data_dir.resolve())
            within.enter_context(worker_process(command, weights_bytes))
        yield


@contextmanager
def _ending_signals(*events: threading.Event) -> Iterator[None]:
    """While the block runs, let each SIGINT or SIGTERM set the next event, instead of ending us.

    The server has handlers of its own while it serves; after it, signals come here.
    """

    def handle(*_: object) -> None:
        for event in events:
            if not event.is_set():
                event.set()
                return

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_process() -> None:
    """End at once, as a thread that computes would otherwise be cut off in the middle of a call."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _wait_until_started(server: Server, thread: threading.Thread) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline_s:
            raise CannotServe("The server did not start; its log says why.")
        time.sleep(0.05)
