"""What the commands do with documents: find them by name, upload, follow, show and change."""

import json
import queue
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from rich.console import Console

from cli.client import Client, Refused
from cli.exit_codes import NoSuchName
from cli.names import did_you_mean
from cli.show import (
    ID_CHARS,
    ReadingBar,
    document_details,
    documents_table,
    reading_bars,
    say,
    warn,
)
from common.errors import LecternError
from common.status import DocumentStatus

FOLLOWED = 8  # documents whose events are followed at the same time


class DocumentsNotRead(Refused):
    """At least one uploaded document could not be read."""

    code = "not_read"


def upload(
    client: Client,
    console: Console,
    paths: Sequence[Path],
    *,
    wait: bool,
    as_json: bool = False,
) -> None:
    """Send files and print their ids.

    Args:
        paths: the files.
        wait: whether to show the progress until all documents are read.
        as_json: whether to print the documents as JSON at the end, and nothing else.
    Raises: DocumentsNotRead at the end, if any file was refused or its document failed; what they
        all ended with if that is one thing, such as a server that does not answer.
    """
    documents, failures = [], []
    for path in paths:
        try:
            document = client.upload_path(path)
        except Refused as error:
            if len(paths) == 1:
                raise
            failures.append(f"{path.name}: {error.message}")
            continue
        documents.append(document)
        if not as_json:
            say(console, f"{document['id']}  {document['status']:8}  {path.name}")
    if wait:
        failures += _follow_interruptibly(client, console, documents, shows=not as_json)
    if as_json:
        if wait:
            documents = [client.document(document["id"]) for document in documents]
        print_json(console, documents)
    if failures:
        raise DocumentsNotRead("\n".join(failures))


def follow(
    client: Client,
    console: Console,
    documents: Sequence[Mapping[str, Any]],
    *,
    shows: bool = True,
) -> list[str]:
    """Show a progress bar for each document until all are read; return a line for each failure.

    Args:
        shows: whether there are bars at all.
    """
    by_id = {str(document["id"]): document for document in documents}
    failures = dict[str, str]()
    with reading_bars(console, disable=not shows) as progress:
        bars = {key: ReadingBar(progress, one["filename"]) for key, one in by_id.items()}
        for key, event in _events_of_all(client, list(by_id)):
            bars[key].update(event)
            if event["status"] == DocumentStatus.FAILED:
                failures[key] = f"{by_id[key]['filename']}: {event['error']['message']}"
    return [failures[key] for key in by_id if key in failures]


def _follow_interruptibly(
    client: Client, console: Console, documents: Sequence[Mapping[str, Any]], *, shows: bool
) -> list[str]:
    """Follow documents; who stops that is told that they are read all the same."""
    try:
        return follow(client, console, documents, shows=shows)
    except KeyboardInterrupt:
        warn("Stopped waiting; the documents are read all the same (`lectern documents`).")
        raise


def _events_of_all(
    client: Client, document_ids: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events of several documents as they come, each with its document's id."""
    if len(document_ids) <= 1:
        for document_id in document_ids:
            for event in client.events(document_id):
                yield document_id, event
        return
    arrived: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for document_id in document_ids:
        waiting.put(document_id)

    def read() -> None:
        while not waiting.empty():
            try:
                document_id = waiting.get_nowait()
                for event in client.events(document_id):
                    arrived.put((document_id, event))
                arrived.put((document_id, None))
            except queue.Empty:
                return
            except Exception as error:
                arrived.put(("", error))
                return

    for _ in range(min(FOLLOWED, len(document_ids))):
        threading.Thread(target=read, name="follow", daemon=True).start()
    num_left = len(document_ids)
    while num_left:
        document_id, event = arrived.get()
        if isinstance(event, Exception):
            raise event
        if event is None:
            num_left -= 1
        else:
            yield document_id, event


def show_documents(client: Client, console: Console) -> None:
    """Print a table of all documents."""
    documents = list(client.documents())
    if not documents:
        say(console, "No documents yet. Add one with `lectern upload FILE --wait`.")
        return
    console.print(documents_table(documents))


def show_documents_json(client: Client, console: Console) -> None:
    """Print all documents as JSON."""
    print_json(console, list(client.documents()))


def show_document(client: Client, console: Console, name: str, *, as_json: bool = False) -> None:
    """Print all that is known about one document."""
    document = client.document(resolve(client, name))
    if as_json:
        print_json(console, document)
    else:
        console.print(document_details(document))


def delete(client: Client, console: Console, documents: Sequence[Mapping[str, Any]]) -> None:
    """Delete documents, and say so of each."""
    for document in documents:
        client.delete(document["id"])
        say(console, f"Deleted {document['filename']} ({document['id']}).")


def rename(client: Client, console: Console, name: str, filename: str) -> None:
    """Give a document another name; the same file keeps its id."""
    changed = client.change(resolve(client, name), filename=filename)
    say(console, f"{short_id(changed)} is called {changed['filename']} now.")


def pin(client: Client, console: Console, name: str, *, is_pinned: bool) -> None:
    """Let a document's cache never leave memory, or let it leave again."""
    changed = client.change(resolve(client, name), pinned=is_pinned)
    said = "stays in memory" if is_pinned else "may leave memory again"
    say(console, f"{changed['filename']} {said}.")
    for warning in changed.get("warnings", ()):
        warn(warning["message"])


def retry(client: Client, console: Console, name: str, *, wait: bool) -> None:
    """Read a failed document again.

    Raises: DocumentsNotRead if it fails once more while that is waited for.
    """
    document = client.act(resolve(client, name), "retry")
    say(console, f"{document['filename']}: {document['status']}")
    if wait and (failures := _follow_interruptibly(client, console, [document], shows=True)):
        raise DocumentsNotRead("\n".join(failures))


def show_text(client: Client, name: str, page: int | None) -> None:
    """Print the text that was read from a document, or from one of its pages, as it is."""
    sys.stdout.write(client.text(resolve(client, name), page)["text"] + "\n")


def resolve(client: Client, name: str) -> str:
    """Return the id of the document that a name stands for.

    Args:
        name: the id, the beginning of it, or the document's file name, which comes first.
    Raises: NoSuchName, with the nearest names, if it fits no document; Refused if it fits several.
    """
    try:
        return str(UUID(name))
    except ValueError:
        return str(find(client, name)["id"])


def find(client: Client, name: str) -> Mapping[str, Any]:
    """Return the body of the document that a name stands for. Raises: as `resolve`."""
    fitting = [one for one in client.named(name) if _fits(one, name)]
    document_ids = [short_id(one) for one in fitting]
    if not document_ids:
        hint = did_you_mean(name, (one["filename"] for one in client.documents()))
        raise NoSuchName(f"No document is called '{name}', and no id begins with it.{hint}")
    if len(document_ids) > 1:
        shown = ", ".join(document_ids)
        raise Refused(f"{len(document_ids)} documents fit '{name}' ({shown}); give the id of one.")
    return fitting[0]


def _fits(document: Mapping[str, Any], name: str) -> bool:
    """Whether a name can stand for a document; an older server returns others, too."""
    digits = name.lower().replace("-", "")
    is_id = bool(digits) and str(document["id"]).replace("-", "").startswith(digits)
    return is_id or document["filename"] == name


def short_id(document: Mapping[str, Any]) -> str:
    """Return the beginning of a document's id, as tables show it."""
    return str(document["id"])[:ID_CHARS]


def complete_name(incomplete: str) -> list[str]:
    """Return the names of documents that begin like this, for a shell; nothing if none answers."""
    from cli.options import environment_client

    try:
        with environment_client(timeout_s=1.0) as client:
            names = dict.fromkeys(str(one["filename"]) for one in client.documents())
    except LecternError:
        return []
    return [name for name in names if name.startswith(incomplete)]


def print_json(console: Console, value: Any) -> None:
    """Print a value as JSON, for other programs."""
    say(console, json.dumps(value, indent=2, ensure_ascii=False))
