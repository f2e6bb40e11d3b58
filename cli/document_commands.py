"""`lectern documents`: list, show, delete, rename, pin, retry and print documents of a server."""

import sys
from typing import Annotated

import typer

from cli import client as api
from cli import documents
from cli.command_group import CommandGroup
from cli.options import DEFAULT_URL, AsJson, Key, Url
from cli.show import make_console
from common.errors import InvalidInput

app = typer.Typer(
    name="documents",
    cls=CommandGroup,
    help="List, show, delete, rename, pin and retry documents, or print their text.",
    invoke_without_command=True,
)
Name = Annotated[
    str,
    typer.Argument(
        metavar="DOCUMENT",
        help="The document's id, the beginning of it, or its file name.",
        autocompletion=documents.complete_name,
    ),
]


@app.callback()
def list_without_command(
    context: typer.Context, as_json: AsJson = False, url: Url = DEFAULT_URL, key: Key = None
) -> None:
    """List, show, delete, rename, pin and retry documents, or print their text.

    Without a command they are listed.
    """
    if context.invoked_subcommand is None:
        show_all(as_json, url, key)


@app.command("list")
def show_all(as_json: AsJson = False, url: Url = DEFAULT_URL, key: Key = None) -> None:
    """List the documents with their state and the size of their caches, newest first.

    Ids are shortened; --json prints them whole.
    """
    command = documents.show_documents_json if as_json else documents.show_documents
    with api.Client(url, key) as client:
        command(client, make_console())


@app.command()
def show(name: Name, as_json: AsJson = False, url: Url = DEFAULT_URL, key: Key = None) -> None:
    """Show all that is known about one document."""
    with api.Client(url, key) as client:
        documents.show_document(client, make_console(), name, as_json=as_json)


@app.command()
def delete(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="DOCUMENT...",
            help="Ids, beginnings of them, or file names.",
            autocompletion=documents.complete_name,
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")] = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Delete documents with everything that was made of them, for good.

    If one of the names fits no document, or several, nothing is deleted.
    """
    with api.Client(url, key) as client:
        found = [client.document(documents.resolve(client, name)) for name in names]
        chosen = list({one["id"]: one for one in found}.values())
        if not yes:
            if not sys.stdin.isatty():
                raise InvalidInput("This deletes documents for good; say --yes.")
            shown = ", ".join(str(one["filename"]) for one in chosen)
            typer.confirm(f"Delete {shown} for good?", abort=True)
        documents.delete(client, make_console(), chosen)


@app.command()
def rename(
    name: Name,
    filename: Annotated[str, typer.Argument(metavar="NEW_NAME", help="Its name from now on.")],
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Give a document another name."""
    with api.Client(url, key) as client:
        documents.rename(client, make_console(), name, filename)


@app.command()
def pin(
    name: Name,
    off: Annotated[bool, typer.Option("--off", help="Let it leave memory again.")] = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Load a document's cache, and let it never leave memory."""
    with api.Client(url, key) as client:
        documents.pin(client, make_console(), name, is_pinned=not off)


@app.command()
def retry(
    name: Name,
    wait: Annotated[
        bool, typer.Option("--wait", "-w", help="Show progress until it is read.")
    ] = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Read a failed document again; any other one stays as it is."""
    with api.Client(url, key) as client:
        documents.retry(client, make_console(), name, wait=wait)


@app.command()
def text(
    name: Name,
    page: Annotated[
        int | None, typer.Option(min=1, help="One page of it.", show_default=False)
    ] = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Print the text that was read from a document, which spans of evidence point into."""
    with api.Client(url, key) as client:
        documents.show_text(client, name, page)
