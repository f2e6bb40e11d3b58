"""The client's commands: upload, ask, documents."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from rich.console import Console
from rich.text import Text

from cli.client import Client, Refused
from cli.show import (
    ReadingBar,
    answer_details,
    documents_table,
    reading_bars,
    say,
)


class NotRead(Refused):
    """An uploaded document could not be read."""

    code = "not_read"


def upload(client: Client, console: Console, paths: Sequence[Path], *, wait: bool) -> None:
    """Send files, print their ids, and with `wait` follow them until all are read.

    Raises: NotRead once all have had their turn, if any was refused or failed.
    """
    documents, failures = [], []
    for path in paths:
        try:
            document = client.upload_path(path)
        except Refused as error:
            failures.append(f"{path.name}: {error.message}")
            continue
        documents.append(document)
        say(console, f"{document['id']}  {document['status']:8}  {path.name}")
    if wait:
        failures += follow(client, console, documents)
    if failures:
        raise NotRead("\n".join(failures))


def follow(client: Client, console: Console, documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """Show a bar for each document until it is read; returns a line for each failure."""
    failures = []
    with reading_bars(console) as progress:
        for document in documents:
            bar = ReadingBar(progress, document["filename"])
            for event in client.events(document["id"]):
                bar.update(event)
                if event["status"] == "failed":
                    failures.append(f"{document['filename']}: {event['error']['message']}")
    return failures


def ask(
    client: Client, console: Console, name: str, question: str, options: Mapping[str, Any]
) -> None:
    """Print an answer as it comes, then the evidence for it."""
    document_id = resolve(client, name)
    for event, data in client.ask_streaming(document_id, question, **options):
        if event == "piece":
            console.print(Text(data["text"]), end="", soft_wrap=True)
        elif event == "answer":
            console.print()
            console.print(answer_details(data))


def ask_json(
    client: Client, console: Console, name: str, question: str, options: Mapping[str, Any]
) -> None:
    """Print the whole answer as the server's JSON."""
    print_json(console, client.ask(resolve(client, name), question, **options))


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


def resolve(client: Client, name: str) -> str:
    """A document's id from its id, the beginning of it, or its file name.

    Raises: Refused if none or several fit.
    """
    try:
        return str(UUID(name))
    except ValueError:
        found = list(_fitting(client, name))
    if not found:
        raise Refused(f"No document is called '{name}', and no id begins with it.")
    if len(found) > 1:
        raise Refused(f"{len(found)} documents fit '{name}'; give the id of one.")
    return found[0]


def print_json(console: Console, value: Any) -> None:
    """Print JSON as programs read it."""
    say(console, json.dumps(value, indent=2, ensure_ascii=False))


def _fitting(client: Client, name: str) -> Iterator[str]:
    for document in client.documents():
        if document["filename"] == name or document["id"].startswith(name.lower()):
            yield document["id"]
