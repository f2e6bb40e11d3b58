"""Compose a server or a worker of all packages, as the settings say.

Only the commands that need a model import this module, because importing torch takes seconds.
"""

from dataclasses import dataclass

from fastapi import FastAPI
from transformers.utils.logging import disable_progress_bar

from app.admin.password import ensure_password
from app.factory import create_app
from app.services.services import Services, make_services
from cli.settings import Settings
from engine.engine import Engine
from engine.model.loader import LoadedModel, load_model
from precompute.fingerprint import artifact_fingerprint
from storage.storage import Storage, open_storage
from workers.model_artifact_builder import ModelArtifactBuilder, extraction_limits
from workers.worker import Worker


@dataclass(frozen=True)
class Stack:
    """All parts of a server in one process, which is not running yet."""

    settings: Settings
    storage: Storage
    services: Services
    app: FastAPI
    worker: Worker | None


@dataclass(frozen=True)
class Secrets:
    """Secrets that the first start makes and shows once; None if they were made before."""

    api_key: str | None
    admin_password: str | None


def open_engine(settings: Settings) -> Engine:
    """Load the model that the settings name, and make an engine for it."""
    disable_progress_bar()  # type: ignore[no-untyped-call]  # it would mix with our output
    return Engine(load_model(settings.model_files()), settings.decoding)


def open_stack(settings: Settings) -> Stack:
    """Open storage, load the model and make the app, and a worker if the settings embed one."""
    storage = open_storage(settings.storage())
    engine = open_engine(settings)
    fingerprint = artifact_fingerprint(engine.model, settings.precompute)
    services = make_services(settings.server, settings.data_dir, storage, engine, fingerprint)
    has_worker = settings.server.embedded_worker
    worker = make_worker(settings, storage, engine.model) if has_worker else None
    return Stack(settings, storage, services, create_app(services), worker)


def open_worker(settings: Settings) -> tuple[Worker, Storage]:
    """Open storage and load the model for a worker in a process of its own."""
    storage = open_storage(settings.storage())
    return make_worker(settings, storage, open_engine(settings).model), storage


def make_worker(settings: Settings, storage: Storage, model: LoadedModel) -> Worker:
    """Make a worker for a model that is loaded already."""
    limits = extraction_limits(settings.worker)
    builder = ModelArtifactBuilder(lambda: model, settings.precompute, limits)
    return Worker(storage, builder, settings.worker)


def make_secrets(stack: Stack) -> Secrets:
    """Make the first API key and the dashboard's password, unless there are some."""
    storage = stack.storage
    key = None if storage.keys.any() else storage.keys.create_default("first start")
    return Secrets(key, ensure_password(stack.settings.data_dir))
