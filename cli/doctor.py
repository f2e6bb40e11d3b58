"""`lectern doctor`: whether settings and machine are sound, and what to expect of a model."""

import hashlib
import importlib.metadata
import os
import platform
import re
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from rich.console import Console

import app
from cli.listener import CannotServe, listen
from cli.local_storage import looking_at_storage
from cli.model_report import ModelReport
from cli.settings import Settings
from cli.show import say
from common.errors import InvalidInput, LecternError
from common.format import format_bytes, format_count
from engine.document.cache_bytes import CacheBytes

LITTLE_DISK_BYTES = 1 << 30
ASSET = re.compile(r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|", re.MULTILINE)
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
    """Look at machine, data folder, disk, database, Redis, pages and port; changes nothing."""
    yield Check("python", platform.python_version())
    yield _check_torch()
    yield _check_faiss()
    yield _check_data_dir(settings.data_dir)
    yield _check_disk(settings)
    yield _check_database(settings)
    if settings.redis_url is not None:
        yield _check_redis(settings.redis_url.get_secret_value())
    yield check_assets(Path(app.__file__).parent)
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
    place = _existing(folder)
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        return Check("data folder", f"{folder} cannot be written", is_sound=False)
    state = "can be written" if folder.exists() else "is made by the first start"
    return Check("data folder", f"{folder} {state}")


def _check_disk(settings: Settings) -> Check:
    """Look whether the disk has room for the largest upload, and a little more for its cache."""
    try:
        usage = shutil.disk_usage(_existing(settings.data_dir))
    except OSError as error:
        return Check("disk", f"cannot be looked at ({type(error).__name__})", is_sound=False)
    needed_bytes = max(LITTLE_DISK_BYTES, settings.server.max_upload_bytes)
    found = f"{format_bytes(usage.free)} of {format_bytes(usage.total)} free"
    if usage.free < needed_bytes:
        return Check("disk", f"{found}, less than {format_bytes(needed_bytes)}", is_sound=False)
    return Check("disk", found)


def _existing(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that exists."""
    place = folder.resolve()
    while not place.exists() and place != place.parent:
        place = place.parent
    return place


def check_assets(folder: Path) -> Check:
    """Look whether the pages' scripts, styles and fonts are there as they were released.

    Args:
        folder: of the package `app`, whose static folders name the hashes of their files.
    """
    notices = sorted(folder.rglob("static/NOTICE.md"))
    wrong, num_files = [], 0
    for notice in notices:
        for name, sha256 in ASSET.findall(notice.read_text(encoding="utf-8")):
            num_files += 1
            path = notice.parent / name
            if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
                wrong.append(name)
    if not num_files:
        return Check("browser assets", "are missing; install Lectern anew", is_sound=False)
    if wrong:
        found = f"{', '.join(wrong)}: missing or changed; install Lectern anew"
        return Check("browser assets", found, is_sound=False)
    return Check("browser assets", f"{num_files} as released; nothing is loaded from elsewhere")


def _check_database(settings: Settings) -> Check:
    """Open the database without making one."""
    from sqlalchemy import create_engine, text
    from sqlalchemy.exc import SQLAlchemyError

    from storage.config import SQLITE_FILE
    from storage.db.migrate import revision_of, revisions

    config = settings.storage()
    if not config.database_url and not (config.data_dir / SQLITE_FILE).exists():
        return Check("database", "SQLite, which the first start makes")
    engine = create_engine(config.sql_url())
    question = "PRAGMA schema_version" if engine.dialect.name == "sqlite" else "SELECT 1"
    try:
        with engine.connect() as connection:
            connection.execute(text(question))
            revision = revision_of(connection)
    except SQLAlchemyError as error:
        return Check("database", f"does not answer ({type(error).__name__})", is_sound=False)
    finally:
        engine.dispose()
    known, name = revisions(), engine.dialect.name
    if revision is None:
        return Check("database", f"{name} answers; the first start makes its tables")
    if revision not in known:
        found = f"{name} answers, but its tables are of a newer version of Lectern"
        return Check("database", found, is_sound=False)
    state = "up to date" if revision == known[0] else "older; the next start brings them up to date"
    return Check("database", f"{name} answers; its tables are {state}")


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
    with looking_at_storage(settings) as storage:
        traces = [] if storage is None else list(storage.find_traces(deleted_id))
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
