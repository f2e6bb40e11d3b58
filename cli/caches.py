"""`lectern cache`: what is stored and what is in memory: list, remove, rebuild, load and evict."""

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from cli import client as api
from cli.command_group import CommandGroup
from cli.document_commands import Name
from cli.documents import resolve as resolve_document
from cli.exit_codes import NoSuchName
from cli.local_storage import changing_storage, local_settings, looking_at_storage
from cli.options import DEFAULT_URL, DataDir, Key, Url
from cli.settings import Settings
from cli.show import format_moment, make_console, say
from common.errors import InvalidInput, Transient
from common.format import format_bytes, format_count

if TYPE_CHECKING:  # importing SQLAlchemy takes time, which other commands should not need
    from storage.artifacts.space import StoredCaches
    from storage.storage import Storage

SHOWN_CHARS = 12
PREFETCH_S = 600.0
POLL_S = 0.3


class PrefetchFailed(Transient):
    """A document was not in memory in time."""

    code = "prefetch_failed"


app = typer.Typer(
    name="cache",
    help="List, drop, rebuild and tidy up stored caches; load and evict those of a running server.",
    cls=CommandGroup,
    no_args_is_help=True,
    epilog="A cache belongs to the model and the settings that made it, which its fingerprint "
    "names. `prefetch` and `evict` ask a running server; the others work on the database directly, "
    "on the server's own machine, whether it runs or not.",
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
    with looking_at_storage(local_settings(data_dir)) as storage:
        stored = () if storage is None else storage.space.stored()
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
    settings = local_settings(data_dir)
    with changing_storage(settings) as storage:
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
    settings = local_settings(data_dir)
    with changing_storage(settings) as storage:
        known = [*_living(storage), *(one.fingerprint for one in storage.space.stored())]
        chosen = resolve(known, fingerprint) if fingerprint else _current(storage, settings)
        bound = storage.of(chosen)
        unread = bound.space.unread()
        num_queued = bound.jobs.enqueue_all(unread.document_ids)
        storage.notifier.notify_workers()
    tokens = format_count(unread.num_tokens)
    say(make_console(), f"Queued {num_queued} documents, {tokens} tokens, to be read again.")


@app.command()
def gc(data_dir: DataDir = None) -> None:
    """Remove what interrupted work has left: unfinished caches, and parts of uploads.

    A running worker does the same every minute. Nothing that any process uses or writes is touched.
    """
    settings = local_settings(data_dir)
    with looking_at_storage(settings) as storage:
        if storage is None:
            say(make_console(), "Nothing is stored here.")
            return
        from app.documents.upload import remove_leftovers

        num_folders = storage.artifacts.collect_garbage()
        num_parts = remove_leftovers(settings.data_dir / "incoming")
        storage.db.erase_deleted()
    say(make_console(), f"Removed {num_folders} unfinished caches and {num_parts} partial uploads.")


@app.command()
def prefetch(
    document: Name,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait until it is in memory.")] = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Load a ready document into a running server's memory, for questions that will come."""
    with api.Client(url, key) as client:
        body = client.act(resolve_document(client, document), "prefetch")
        deadline_s = time.monotonic() + PREFETCH_S
        while wait and body["tier"] != "device":
            if time.monotonic() > deadline_s:
                raise PrefetchFailed(f"{body['filename']} is still on the {body['tier']}.")
            time.sleep(POLL_S)
            body = client.document(body["id"])
    said = "is in memory" if body["tier"] == "device" else "is being loaded"
    say(make_console(), f"{body['filename']} {said}.")


@app.command()
def evict(document: Name, url: Url = DEFAULT_URL, key: Key = None) -> None:
    """Take a document out of a running server's memory; its cache stays on the disk.

    Questions that are being answered from it keep it until they end. A pinned one is refused.
    """
    with api.Client(url, key) as client:
        body = client.act(resolve_document(client, document), "evict")
    say(make_console(), f"{body['filename']} leaves memory; its cache stays on the disk.")


def resolve(fingerprints: Iterable[str], text: str) -> str:
    """Return the one fingerprint that begins with a text.

    Raises: InvalidInput if none or several do.
    """
    fitting = {one for one in fingerprints if text and one.startswith(text.lower())}
    if not fitting:
        raise NoSuchName(f"Nothing is stored for '{text}'; `lectern cache list` shows what is.")
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
