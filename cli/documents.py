"""The commands of the client: upload, ask, documents."""

import json
from collections.abc import Mapping, Sequence
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
from common.status import DocumentStatus


class DocumentsNotRead(Refused):
    """At least one uploaded document could not be read."""

    code = "not_read"


def upload(client: Client, console: Console, paths: Sequence[Path], *, wait: bool) -> None:
    """Send files and print their ids.

    Args:
        paths: the files.
        wait: whether to show the progress until all documents are read.
    Raises: DocumentsNotRead at the end, if any file was refused or its document failed.
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
        raise DocumentsNotRead("\n".join(failures))


def follow(client: Client, console: Console, documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """Show progress bars until all documents are read; return a line for each failure."""
    failures = []
    with reading_bars(console) as progress:
        for document in documents:
            bar = ReadingBar(progress, document["filename"])
            for event in client.events(document["id"]):
                bar.update(event)
                if event["status"] == DocumentStatus.FAILED:
                    failures.append(f"{document['filename']}: {event['error']['message']}")
    return failures


def ask(
    client: Client, console: Console, name: str, question: str, options: Mapping[str, Any]
) -> None:
    """Print an answer as it comes, then its evidence, budget and times; thinking is dimmed."""
    document_id, was_thinking = resolve(client, name), False
    for event, data in client.ask_streaming(document_id, question, **options):
        if event == "thinking":
            console.print(Text(data["text"], style="dim"), end="", soft_wrap=True)
            was_thinking = True
        elif event == "piece":
            if was_thinking:
                console.print("\n")
                was_thinking = False
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
    """Return the id of the document that a name stands for.

    Args:
        name: the id, the beginning of it, or the document's file name.
    Raises: Refused if the name fits no document, or several.
    """
    try:
        return str(UUID(name))
    except ValueError:
        found = client.named(name)
    if not found:
        raise Refused(f"No document is called '{name}', and no id begins with it.")
    if len(found) > 1:
        candidates = ", ".join(f"{one['id']} ({one['filename']})" for one in found)
        raise Refused(f"Several documents fit '{name}'; give the id of one: {candidates}.")
    return str(found[0]["id"])


def print_json(console: Console, value: Any) -> None:
    """Print a value as JSON, for other programs."""
    say(console, json.dumps(value, indent=2, ensure_ascii=False))
