"""`lectern cache`: list, remove and rebuild stored caches, on the server's own machine."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from cli.options import DataDir, not_none, read_settings
from cli.settings import Settings
from cli.show import format_moment, make_console, say
from common.errors import InvalidInput
from common.format import format_bytes, format_count

if TYPE_CHECKING:  # importing SQLAlchemy takes time, which other commands should not need
    from storage.artifacts.space import StoredCaches
    from storage.storage import Storage

SHOWN_CHARS = 12
app = typer.Typer(
    name="cache",
    help="List, remove and rebuild stored caches, on the server's own machine.",
    no_args_is_help=True,
    epilog="A cache belongs to the model and the settings that made it, which its fingerprint "
    "names. Works on the database directly, whether the server runs or not.",
)
Fingerprint = Annotated[
    str | None,
    typer.Option(
        "--fingerprint",
        help="Model and settings, as `lectern cache list` shows them, or the beginning; by default "
        "those of the running server, or else those that the settings name.",
        show_default=False,
    ),
]


@app.command("list")
def show(data_dir: DataDir = None) -> None:
    """List what is stored for each model and settings, and whether a running process uses it."""
    console = make_console()
    with _storage(_settings(data_dir)) as storage:
        stored = storage.space.stored()
    if stored:
        console.print(caches_table(stored))
    else:
        say(console, "No caches are stored here.")


@app.command()
def drop(
    fingerprints: Annotated[
        list[str] | None,
        typer.Argument(
            help="Fingerprints, or their beginnings; by default all that no running process uses "
            "and that the settings do not name.",
            show_default=False,
        ),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Remove the caches of other models and settings. Documents stay, and can be read again."""
    settings = _settings(data_dir)
    with _storage(settings) as storage:
        stored = storage.space.stored()
        if fingerprints:
            chosen = {resolve((one.fingerprint for one in stored), name) for name in fingerprints}
        else:
            kept = {one.fingerprint for one in stored if one.is_in_use}
            kept.add(_current(storage, settings))
            chosen = {one.fingerprint for one in stored} - kept
        _refuse_those_in_use(stored, chosen)
        freed = storage.space.drop(chosen)
    num_documents = sum(one.num_documents for one in stored if one.fingerprint in chosen)
    say(make_console(), f"Removed {num_documents} caches, {format_bytes(freed)}.")


@app.command()
def rebuild(fingerprint: Fingerprint = None, data_dir: DataDir = None) -> None:
    """Read all documents that were read with another model or other settings, without being asked.

    A running worker does it; documents that are read stay as they are.
    """
    settings = _settings(data_dir)
    with _storage(settings) as storage:
        known = [*_living(storage), *(one.fingerprint for one in storage.space.stored())]
        chosen = resolve(known, fingerprint) if fingerprint else _current(storage, settings)
        bound = storage.of(chosen)
        unread = bound.space.unread()
        num_queued = bound.jobs.enqueue_all(unread.document_ids)
        storage.notifier.notify_workers()
    tokens = format_count(unread.num_tokens)
    say(make_console(), f"Queued {num_queued} documents, {tokens} tokens, to be read again.")


def resolve(fingerprints: Iterable[str], text: str) -> str:
    """Return the one fingerprint that begins with a text.

    Raises: InvalidInput if none or several do.
    """
    fitting = {one for one in fingerprints if text and one.startswith(text.lower())}
    if not fitting:
        raise InvalidInput(f"Nothing is stored for '{text}'; `lectern cache list` shows what is.")
    if len(fitting) > 1:
        raise InvalidInput(f"{len(fitting)} fingerprints begin with '{text}'; give more of one.")
    return fitting.pop()


def caches_table(stored: Sequence["StoredCaches"]) -> Table:
    """Make a table of what is stored, a row for each fingerprint."""
    table = Table(box=None, pad_edge=False)
    table.add_column("Fingerprint", no_wrap=True)
    for name in ("Caches", "Size"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("Used", no_wrap=True)
    table.add_column("In use")
    for one in stored:
        used_at = None if one.used_at is None else int(one.used_at.timestamp())
        table.add_row(
            one.fingerprint[:SHOWN_CHARS],
            format_count(one.num_documents),
            format_bytes(one.num_bytes),
            format_moment(used_at),
            "by a running process" if one.is_in_use else "no",
        )
    return table


def _refuse_those_in_use(stored: Sequence["StoredCaches"], chosen: set[str]) -> None:
    for one in stored:
        if one.is_in_use and one.fingerprint in chosen:
            name = one.fingerprint[:SHOWN_CHARS]
            raise InvalidInput(f"A running process uses the caches of {name}; stop it first.")


def _current(storage: "Storage", settings: Settings) -> str:
    """Return the fingerprint of the running processes, or else of the settings.

    Raises: InvalidInput if processes with several fingerprints run.
    """
    living = _living(storage)
    if len(living) > 1:
        names = ", ".join(sorted(one[:SHOWN_CHARS] for one in living))
        raise InvalidInput(f"Processes with different settings run ({names}); name one of them.")
    if living:
        return living.pop()
    from cli.serve import open_engine  # importing torch takes seconds, and so does the model
    from precompute.fingerprint import artifact_fingerprint

    return artifact_fingerprint(open_engine(settings).model, settings.precompute)


def _living(storage: "Storage") -> set[str]:
    from storage.processes import SERVER, WORKER

    processes = storage.processes
    return {one.fingerprint for role in (SERVER, WORKER) for one in processes.living(role)}


def _settings(data_dir: DataDir) -> Settings:
    return read_settings(**not_none(data_dir=data_dir))


@contextmanager
def _storage(settings: Settings) -> Iterator["Storage"]:
    """Open storage while the block runs."""
    from storage.storage import open_storage

    with closing(open_storage(settings.storage())) as storage:
        yield storage
