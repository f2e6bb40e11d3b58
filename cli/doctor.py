"""`lectern doctor`: whether settings and machine are sound, and what to expect of a model."""

import importlib.metadata
import os
import platform
import shutil
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from rich.console import Console

from cli.listener import CannotServe, listen
from cli.model_report import ModelReport
from cli.settings import Settings
from cli.show import say
from common.errors import InvalidInput, LecternError
from common.format import format_bytes, format_count
from engine.document.cache_bytes import CacheBytes

LITTLE_DISK_BYTES = 1 << 30
FAISS = ("faiss-cpu", "faiss-gpu", "faiss-gpu-cu12")


class NotSound(LecternError):
    """At least one check failed, or the model is not served."""

    code = "not_sound"


@dataclass(frozen=True)
class Check:
    """Something that was looked at.

    Attributes:
        what: its name.
        found: what was found, in a sentence or less.
        is_sound: whether a server can run with it.
    """

    what: str
    found: str
    is_sound: bool = True


def check_setup(settings: Settings) -> Iterator[Check]:
    """Look at the machine, the data folder, the database, Redis and the port; changes nothing."""
    yield Check("python", platform.python_version())
    yield _check_torch()
    yield _check_faiss()
    yield _check_data_dir(settings.data_dir)
    yield _check_database(settings)
    if settings.redis_url is not None:
        yield _check_redis(settings.redis_url.get_secret_value())
    yield _check_port(settings.server.host, settings.server.port)


def _check_torch() -> Check:
    import torch

    version = torch.__version__
    if not torch.cuda.is_available():
        built = "; it was built for CUDA, but sees no GPU" if torch.version.cuda else ""
        return Check("torch", f"{version}, on the CPU{built}")
    name = torch.cuda.get_device_properties(0).name
    return Check("torch", f"{version}, {torch.cuda.device_count()} GPU(s), the first: {name}")


def _check_faiss() -> Check:
    installed = [name for name in FAISS if _version(name) is not None]
    if len(installed) > 1:
        return Check("faiss", f"{' and '.join(installed)} overwrite each other", is_sound=False)
    return Check("faiss", installed[0] if installed else "not installed, and not needed")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _check_data_dir(folder: Path) -> Check:
    """Look for a folder that can be written, or a place where it can be made."""
    place = folder.resolve()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        return Check("data folder", f"{folder} cannot be written", is_sound=False)
    free_bytes = shutil.disk_usage(place).free
    state = "" if folder.exists() else ", which the first start makes"
    found = f"{folder}{state}; {format_bytes(free_bytes)} free"
    return Check("data folder", found, is_sound=free_bytes >= LITTLE_DISK_BYTES)


def _check_database(settings: Settings) -> Check:
    """Open the database without making one."""
    from sqlalchemy import create_engine, text
    from sqlalchemy.exc import SQLAlchemyError

    config = settings.storage()
    if not config.database_url and not (config.data_dir / "lectern.sqlite3").exists():
        return Check("database", "SQLite, which the first start makes")
    engine = create_engine(config.sql_url())
    question = "PRAGMA schema_version" if engine.dialect.name == "sqlite" else "SELECT 1"
    try:
        with engine.connect() as connection:
            connection.execute(text(question))
    except SQLAlchemyError as error:
        return Check("database", f"does not answer ({type(error).__name__})", is_sound=False)
    finally:
        engine.dispose()
    return Check("database", f"{engine.dialect.name} answers")


def _check_redis(url: str) -> Check:
    import redis

    try:
        with redis.Redis.from_url(url, socket_connect_timeout=3, socket_timeout=3) as client:
            client.ping()
    except (redis.RedisError, ValueError) as error:
        return Check("redis", f"does not answer ({type(error).__name__})", is_sound=False)
    return Check("redis", "answers")


def _check_port(host: str, port: int) -> Check:
    listener: socket.socket | None = None
    try:
        listener = listen(host, port)
    except CannotServe:
        return Check("port", f"{host}:{port} is taken: a server runs there, or something else does")
    finally:
        if listener is not None:
            listener.close()
    return Check("port", f"{host}:{port} is free")


def check_deleted(console: Console, settings: Settings, text: str) -> None:
    """Look for what is left of a deleted document or tenant, and print it.

    Args:
        text: its id.
    Raises: InvalidInput if the text is no id, NotSound if anything is left.
    """
    try:
        deleted_id = UUID(text)
    except ValueError:
        raise InvalidInput(f"'{text}' is no id of a document or tenant.") from None
    from storage.storage import open_storage

    with closing(open_storage(settings.storage())) as storage:
        traces = list(storage.find_traces(deleted_id))
    for trace in traces:
        say(console, f"FAIL  {trace.place}: {trace.what}")
    if traces:
        raise NotSound("Something is left; see above. What was just deleted takes up to a minute.")
    say(console, f"ok    nothing is left of {deleted_id}")


def show_checks(console: Console, checks: list[Check]) -> None:
    """Print a line a check."""
    for check in checks:
        say(console, f"{'ok  ' if check.is_sound else 'FAIL'}  {check.what}: {check.found}")


def show_model(console: Console, report: ModelReport) -> None:
    """Print what is known about a model."""
    say(console, f"{report.name} ({report.kind})")
    if report.refusal is not None:
        say(console, f"  not served: {report.refusal}")
        return
    assert report.paths is not None
    assert report.cache is not None
    say(console, f"  served, on the {report.device.upper()} in {report.dtype}")
    say(console, f"  context: {format_count(report.context_length)} tokens")
    say(console, f"  attention (layers x KV heads of width): {report.layers}")
    kind = f", quantised by {report.quantisation}" if report.quantisation else ""
    say(console, f"  weights: {format_count(report.num_parameters)} numbers{kind}")
    prefill = "kernels" if report.paths.without_kernels is None else "plain torch"
    decode = "kernels in a CUDA graph" if report.paths.without_graph is None else "plain torch"
    say(console, f"  on a GPU: questions by {prefill}, decoding by {decode}")
    say(console, f"  a document token, all heads: {_cache(report.cache)}")
    if report.cache_with_plan is not None:
        say(console, f"  a document token, with the head plan: {_cache(report.cache_with_plan)}")
    for place, tokens in report.rooms:
        say(console, f"  {place} keeps {format_count(tokens)} tokens of documents")
    for hint in report.hints:
        say(console, f"  better: {hint}")


def _cache(cache: CacheBytes) -> str:
    text = format_bytes(cache.per_token)
    if cache.constant < 1:
        return text
    return f"{text}, and {format_bytes(cache.constant)} whatever the document's length"
