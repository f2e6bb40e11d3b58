"""The `lectern` command: server, worker, demo, and client."""

import gc
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli import asking, caches, document_commands, heads, keys, tenants
from cli import client as api
from cli import documents as commands
from cli.command_group import CommandGroup
from cli.document_commands import Name
from cli.exit_codes import TOLD, exit_code
from cli.listener import listen
from cli.options import (
    DEFAULT_URL,
    AsJson,
    DataDir,
    Key,
    Url,
    not_none,
    parse_budget,
    read_settings,
)
from cli.show import make_console, say
from common.errors import LecternError
from common.logging import configure
from engine.model.lean_transformers import import_transformers

app = typer.Typer(
    name="lectern",
    cls=CommandGroup,
    help="Read a long document once, ask it any number of questions fast.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog=f"Settings are environment variables, LECTERN_...; the README lists them.\n\n{TOLD}",
)
Budget = Annotated[
    str,
    typer.Option(
        help="How much of the document's cache may be read per token: fast (5 %), balanced (15 %), "
        "exact (all), auto (the least that keeps the answers), or a share such as 10% or 0.1."
    ),
]
Quote = Annotated[
    bool | None,
    typer.Option(
        "--quote/--free",
        help="Answer by the document's own passages alone, or freely; without either as the "
        "server's settings say.",
        show_default=False,
    ),
]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="Longest answer.", show_default=False)]

app.add_typer(document_commands.app)
app.add_typer(caches.app)
app.add_typer(keys.app)
app.add_typer(keys.app, name="key", hidden=True)  # the same, by its earlier name
app.add_typer(tenants.app)
app.add_typer(heads.app)


def main() -> None:
    """Run the command; an error becomes one sentence on standard error and an exit code."""
    configure("ERROR")  # on standard error; servers and workers set their own level
    try:
        app(prog_name="lectern")
    except LecternError as error:
        Console(stderr=True, highlight=False).print(
            f"Error: {error.message}", markup=False, soft_wrap=True
        )
        sys.exit(exit_code(error))


def _tell_version(asked: bool) -> None:
    if asked:
        say(make_console(), _version())
        raise typer.Exit


@app.callback()
def lectern(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_tell_version),
    ] = False,
) -> None:
    """Read a long document once, ask it any number of questions fast."""


@app.command()
def demo(
    port: Annotated[int, typer.Option(help="Port to serve on; 0 takes a free one.")] = 0,
    leave: Annotated[
        bool, typer.Option("--exit", help="Stop after the questions, even in a terminal.")
    ] = False,
    handbook: Annotated[
        Path | None,
        typer.Option(
            help="A folder with another Markdown file and questions.json "
            '([{"question", "answer"}, ...]).',
            file_okay=False,
            exists=True,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Upload a handbook, watch it being read, ask eight questions, keep serving.

    Needs no network. Runs a server with an embedded worker on SQLite in a folder of its own, which
    is removed at the end. In a terminal the server then stays up until Ctrl-C; elsewhere it stops.
    Fewer than six right answers of eight are a failure (exit code 1).
    """
    server = {"host": "127.0.0.1", "port": port, "embedded_worker": True}
    settings = read_settings(database_url=None, redis_url=None, server=server)
    listener = listen(settings.server.host, settings.server.port)
    import_transformers()
    from cli.demo import run
    from cli.serve import serve_with_secrets
    from reader import HANDBOOK

    stay = sys.stdout.isatty() and not leave
    folder = handbook or HANDBOOK
    run(make_console(), settings, listener, serve_with_secrets, stay=stay, folder=folder)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address (LECTERN_SERVER__HOST).")] = None,
    port: Annotated[int | None, typer.Option(help="Port (LECTERN_SERVER__PORT; 8080).")] = None,
    data_dir: DataDir = None,
    worker: Annotated[
        bool | None,
        typer.Option(
            "--worker/--no-worker",
            help="Read documents in this process (LECTERN_SERVER__EMBEDDED_WORKER; yes).",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve the HTTP API, the reading room and the dashboard, and read documents there.

    The first start prints an API key and the dashboard's password, once.
    """
    server = not_none(host=host, port=port, embedded_worker=worker)
    settings = read_settings(**not_none(data_dir=data_dir), server=server)
    listener = listen(settings.server.host, settings.server.port)
    gc.disable()  # until the engine is prepared, as modules and compiled layers stay anyway
    import_transformers()
    from cli.serve import run_server  # importing torch takes seconds, so the port comes first

    run_server(make_console(), settings, listener)


@app.command()
def worker(data_dir: DataDir = None) -> None:
    """Read documents that are waiting, beside a server that was started with --no-worker.

    Shares the server's database and data folder.
    """
    import_transformers()
    from cli.serve import run_worker

    run_worker(make_console(), read_settings(**not_none(data_dir=data_dir)))


@app.command()
def upload(
    files: Annotated[
        list[Path],
        typer.Argument(
            exists=True, dir_okay=False, readable=True, help="TXT, Markdown, HTML, PDF or DOCX."
        ),
    ],
    wait: Annotated[
        bool, typer.Option("--wait", "-w", help="Show progress until every file is read.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the documents as JSON, and no progress.")
    ] = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Upload files to be read. The same file again gives the same document.

    Ctrl-C while it waits ends the waiting; what was uploaded is read all the same.
    """
    with api.Client(url, key) as client:
        commands.upload(client, make_console(), files, wait=wait, as_json=as_json)


@app.command()
def ask(
    document: Name,
    question: Annotated[
        str | None,
        typer.Argument(
            help="The question, in quotes; without it, or as `-`, standard input.",
            show_default=False,
        ),
    ] = None,
    budget: Budget = "balanced",
    quote: Quote = None,
    max_tokens: MaxTokens = None,
    max_thinking_tokens: Annotated[
        int | None,
        typer.Option(min=0, help="Longest thinking before the answer.", show_default=False),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0, max=2, help="0 is greedy.", show_default=False)
    ] = None,
    top_p: Annotated[
        float | None, typer.Option(min=0, max=1, help="Nucleus sampling.", show_default=False)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="For sampling.", show_default=False)] = None,
    anew: Annotated[
        bool, typer.Option("--anew", help="Compute the answer even if it was given before.")
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Ask a document that is ready; prints the answer and the passages attended to.

    Ctrl-C stops the answer, on the server too.
    """
    options = {
        "budget": parse_budget(budget),
        "mode": _mode(quote),
        "max_tokens": max_tokens,
        "max_thinking_tokens": max_thinking_tokens,
        "temperature": temperature,
        "top_p": top_p,
        "seed": seed,
        "reuse_answer": False if anew else None,
    }
    command = asking.ask_json if as_json else asking.ask
    text = asking.read_question(question)
    with api.Client(url, key) as client:
        command(client, make_console(), document, text, options)


@app.command()
def chat(
    document: Name,
    budget: Budget = "balanced",
    quote: Quote = None,
    max_tokens: MaxTokens = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Ask one question after the other, each with those before it.

    Without a terminal each line of standard input is a question. The server keeps nothing of it.
    """
    options = {"budget": parse_budget(budget), "mode": _mode(quote), "max_tokens": max_tokens}
    with api.Client(url, key) as client:
        asking.chat(client, make_console(), document, options)


@app.command()
def doctor(
    model: Annotated[
        str | None,
        typer.Option(
            help="Also say what can be expected of this model: a folder or an id, of which only "
            "small files are fetched (LECTERN_MODEL).",
            show_default=False,
        ),
    ] = None,
    heads_plan: Annotated[
        str | None,
        typer.Option("--heads", help="With this head plan (LECTERN_HEADS).", show_default=False),
    ] = None,
    families: Annotated[
        Path | None,
        typer.Option(
            help="Print README's table of the configurations in this folder instead.",
            file_okay=False,
            exists=True,
            show_default=False,
        ),
    ] = None,
    deleted: Annotated[
        str | None,
        typer.Option(
            help="Look instead whether anything is left of a deleted document or tenant with this "
            "id: in the database, in names of files and in their bytes.",
            metavar="ID",
            show_default=False,
        ),
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Check settings and machine, and what serving a model would take; changes nothing.

    A model's weights are neither loaded nor fetched. Exit code 1 if something is not sound, or if
    the model is not served.
    """
    settings = read_settings(**not_none(model=model, heads=heads_plan, data_dir=data_dir))
    from cli import doctor as checks
    from cli.model_report import families_table, report_on

    console = make_console()
    if deleted is not None:
        checks.check_deleted(console, settings, deleted)
        return
    if families is not None:
        say(console, families_table(families))
        return
    found = list(checks.check_setup(settings))
    report = report_on(settings, settings.model) if settings.model else None
    if as_json:
        commands.print_json(
            console,
            {"checks": [asdict(one) for one in found], "model": report and report.as_json()},
        )
    else:
        checks.show_checks(console, found)
        if report is not None:
            checks.show_model(console, report)
    if not all(one.is_sound for one in found) or (report and report.refusal):
        raise checks.NotSound("Not everything is sound; see above.")


@app.command(hidden=True)
def version() -> None:
    """Print the version, as --version does."""
    say(make_console(), _version())


def _mode(quote: bool | None) -> str | None:
    """Return the mode of a request; None for what the server's settings say."""
    return None if quote is None else "quote" if quote else "free"


def _version() -> str:
    from importlib.metadata import version as version_of

    return version_of("lectern")


if __name__ == "__main__":
    main()
