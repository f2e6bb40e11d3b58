"""The composition root: settings in, a server or a worker out.

Only this module brings the packages together, and only `serve`, `worker` and `demo` import it:
torch takes seconds that the client commands need not wait.
"""

from dataclasses import dataclass

from fastapi import FastAPI
from transformers.utils.logging import disable_progress_bar

from app.admin.password import ensure_password
from app.factory import create_app
from app.services.services import Services, make_services
from common.settings import Settings
from engine.decode.graph_pool import DecodeConfig
from engine.model.loader import LoadedModel, load_model
from precompute.config import artifact_fingerprint
from reader import WEIGHTS
from storage import Storage, open_storage
from workers.model_artifact_builder import ModelArtifactBuilder, read_settings
from workers.worker import Worker


@dataclass(frozen=True)
class Stack:
    """A whole server in one process, not yet running."""

    settings: Settings
    storage: Storage
    services: Services
    app: FastAPI
    worker: Worker | None


@dataclass(frozen=True)
class Secrets:
    """What a first start makes and shows once; None where it exists already."""

    api_key: str | None
    admin_password: str | None


def open_model(settings: Settings) -> LoadedModel:
    """The model that `settings` name; the bundled reader if they name none."""
    disable_progress_bar()  # type: ignore[no-untyped-call]  # of loading weights: it would break up our own output
    return load_model(
        model_path(settings),
        device=settings.device,
        dtype=settings.dtype,
        heads=settings.precompute.heads,
        decoding=DecodeConfig(**settings.decoding.model_dump()),
    )


def model_path(settings: Settings) -> str:
    """Folder or id of the model."""
    return settings.model or str(WEIGHTS)


def open_stack(settings: Settings) -> Stack:
    """Open storage, load the model and build the app, with a worker if one is embedded."""
    storage = open_storage(settings)
    model = open_model(settings)
    fingerprint = artifact_fingerprint(model, read_settings(settings.precompute))
    services = make_services(settings, storage, model, fingerprint)
    worker = make_worker(settings, storage, model) if settings.server.embedded_worker else None
    return Stack(settings, storage, services, create_app(services), worker)


def open_worker(settings: Settings) -> tuple[Worker, Storage]:
    """Open storage and load the model for a worker of its own."""
    storage = open_storage(settings)
    return make_worker(settings, storage, open_model(settings)), storage


def make_worker(settings: Settings, storage: Storage, model: LoadedModel) -> Worker:
    """A worker around a model that is loaded already."""
    return Worker(storage, ModelArtifactBuilder(lambda: model, settings), settings.worker)


def make_secrets(stack: Stack) -> Secrets:
    """Make the first API key and the dashboard's password, if there are none."""
    storage = stack.storage
    key = None if storage.keys.any() else storage.keys.create_default("first start")
    return Secrets(key, ensure_password(stack.settings.data_dir))
