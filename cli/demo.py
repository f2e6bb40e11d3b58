"""`lectern demo`: upload the bundled handbook, read it, ask questions, and report the answers."""

import json
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.client import Client
from cli.documents import follow
from cli.listener import Secrets
from cli.settings import Settings
from cli.show import ID_CHARS, budget_line, one_line, say
from common.errors import InvalidInput, Permanent
from common.format import format_bytes, format_count, format_duration
from common.logging import configure
from reader import HANDBOOK, WEIGHTS
from storage.files import make_private_folder

MIN_RIGHT_ANSWERS = 6
MAX_PASSAGE_CHARS = 200


Serve = Callable[[Settings, socket.socket], AbstractContextManager[tuple[str, Secrets]]]


class DemoFailed(Permanent):
    """Too many answers were wrong."""

    code = "demo_failed"


@dataclass(frozen=True)
class AskedQuestion:
    """A question, its expected answer, and the body of the answer that the server gave."""

    question: str
    expected: str
    body: dict[str, Any]

    @property
    def is_right(self) -> bool:
        """Whether the answers are equal, apart from case, blanks and a final period."""
        return _normalize(self.body["answer"]) == _normalize(self.expected)


def run(
    console: Console,
    settings: Settings,
    listener: socket.socket,
    serve: Serve,
    *,
    stay: bool,
    folder: Path = HANDBOOK,
) -> None:
    """Start a server, upload a handbook, ask its questions and report the answers.

    Args:
        listener: a bound socket.
        serve: runs a server on that socket while the block runs.
        stay: whether to serve until Ctrl-C after the report.
        folder: contains one Markdown file and questions.json ([{"question", "answer"}]).
    Raises: InvalidInput if these files are missing; DemoFailed if fewer than six answers are
        right; CannotServe.
    """
    handbook, questions = find_handbook(folder)
    configure("ERROR")
    # A shell starts background jobs with SIGINT ignored, but stopping must work there too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        _folder_for(settings.data_dir),
        tempfile.TemporaryDirectory(prefix="demo-", dir=settings.data_dir) as data_dir,
    ):
        temporary = settings.model_copy(update={"data_dir": Path(data_dir)})
        try:
            _run(console, temporary, serve(temporary, listener), handbook, questions, stay=stay)
        except KeyboardInterrupt:
            say(console, "Stopped.")


def _run(
    console: Console,
    settings: Settings,
    server: AbstractContextManager[tuple[str, Secrets]],
    handbook: Path,
    questions: Path,
    *,
    stay: bool,
) -> None:
    say(console, f"Loading {_model_name(settings.model_files().path)} ...")
    with server as (url, secrets), Client(url, secrets.api_key) as client:
        document = upload_and_wait(client, console, handbook)
        asked = ask_all(client, console, document["id"], questions)
        report(console, document, asked)
        check_answers(asked)
        show_reader(console, settings)
        if stay:
            show_address(console, url, secrets)
            show_lines(console, url, str(secrets.api_key), document["id"], asked[0].question)
            show_next_steps(console)
            say(console, "\nThe server keeps running. Ctrl-C stops it and removes the demo's data.")
            threading.Event().wait()
    say(console, "\nThe demo's server has stopped, and its data are removed.")
    show_next_steps(console)


def find_handbook(folder: Path) -> tuple[Path, Path]:
    """Return the paths of the one Markdown file in a folder and of its questions.

    Raises: InvalidInput if the files are not there.
    """
    handbooks, questions = list(folder.glob("*.md")), folder / "questions.json"
    if len(handbooks) != 1 or not questions.is_file():
        raise InvalidInput(f"'{folder}' must hold one Markdown file and questions.json.")
    return handbooks[0], questions


def upload_and_wait(client: Client, console: Console, path: Path) -> dict[str, Any]:
    """Upload a document, show its progress, and return its body when it is ready.

    Raises: DemoFailed if it cannot be read.
    """
    say(console, f"Uploading {path.name} and reading it once:")
    document = client.upload_path(path)
    failures = follow(client, console, [document])
    if failures:
        raise DemoFailed(failures[0])
    document = client.document(document["id"])
    whole, prefill = (
        format_duration(document["reading_ms"][phase]) for phase in ("total", "prefill")
    )
    say(
        console,
        f"Read {format_count(document['num_tokens'])} tokens in {whole}, {prefill} of it prefill; "
        f"the cache has {format_bytes(document['stored_bytes'])}.",
    )
    return document


def ask_all(client: Client, console: Console, document_id: str, path: Path) -> list[AskedQuestion]:
    """Ask all questions of the JSON file at `path`, one after the other."""
    questions = json.loads(path.read_text(encoding="utf-8"))
    asked = []
    with console.status("asking") as status:
        for index, item in enumerate(questions, 1):
            status.update(f"asking question {index} of {len(questions)}")
            body = client.ask(document_id, item["question"], budget="balanced")
            asked.append(AskedQuestion(item["question"], item["answer"], body))
    return asked


def report(console: Console, document: dict[str, Any], asked: list[AskedQuestion]) -> None:
    """Print a table of the answers, and how many are right below it."""
    reading_ms = document["reading_ms"]["prefill"]
    table = Table(show_lines=True)
    table.add_column("Question, passage attended to", ratio=5, overflow="fold")
    table.add_column("Given and expected answer", ratio=3, overflow="fold")
    table.add_column("Budget", ratio=2)
    table.add_column("First token", ratio=2)
    for question in asked:
        table.add_row(*_row(question, reading_ms))
    console.print(table)
    first_ms = median(question.body["timings_ms"]["first_token"] for question in asked)
    num_right = sum(question.is_right for question in asked)
    say(
        console,
        f"{num_right} of {len(asked)} right. First token after {format_duration(first_ms)} "
        f"(median); reading the document again takes {format_duration(reading_ms)}, "
        f"{format_count(round(reading_ms / first_ms))} times as long.",
    )


def check_answers(asked: list[AskedQuestion]) -> None:
    """Return if enough answers are right. Raises: DemoFailed."""
    num_right = sum(question.is_right for question in asked)
    if num_right < MIN_RIGHT_ANSWERS:
        raise DemoFailed(
            f"Only {num_right} of {len(asked)} answers are right; {MIN_RIGHT_ANSWERS} are needed."
        )


def show_reader(console: Console, settings: Settings) -> None:
    """Print what the bundled reader is, from its model card; nothing about another model."""
    told = "" if settings.model else read_demonstration(WEIGHTS / "README.md")
    if told:
        console.print(Text(f"\nThe bundled reader is {told}"))


def read_demonstration(card: Path) -> str:
    """Return the paragraph in which a model card says that its model is a demonstration.

    Args:
        card: the card's path, where there may be no file.
    """
    text = card.read_text(encoding="utf-8") if card.exists() else ""
    found = re.search(r"^It is (a demonstration: .*?)\n\n", text, re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else ""


def show_address(console: Console, url: str, secrets: Secrets) -> None:
    """Print where the server is, and how to get in."""
    say(console, f"\nURL: {url}")
    say(console, f"     reading room: log in with the API key {secrets.api_key}")
    if secrets.admin_password:
        say(console, f"     dashboard at /admin: password {secrets.admin_password}")


def show_next_steps(console: Console) -> None:
    """Print what to do next: serve, with documents and a model of one's own."""
    command = _command()
    say(console, "\nWhat to do next:")
    for what, line in (
        ("Serve for good, and keep the API key that it prints", f"{command} serve"),
        (
            "Ask a document of yours, in another terminal",
            f"export LECTERN_API_KEY=$({command} keys create me)",
        ),
        ("", f"{command} upload FILE --wait"),
        ("", f'{command} ask FILE "YOUR QUESTION"'),
        ("See what another model would take", f"{command} doctor --model MODEL"),
        ("Serve it, a folder or a Hugging Face id", f"LECTERN_MODEL=MODEL {command} serve"),
    ):
        if what:
            say(console, f"- {what}:")
        say(console, f"    {line}")


def _command() -> str:
    """Return how this program is called from where it was started."""
    program = Path(sys.executable).with_name("lectern")
    if not program.exists() or shutil.which("lectern") == str(program):
        return "lectern"
    with suppress(ValueError):
        return str(program.relative_to(Path.cwd()))
    return str(program)


@contextmanager
def _folder_for(data_dir: Path) -> Iterator[None]:
    """Let a data folder be there while the block runs; one that was not there before goes again."""
    missing = [one for one in (data_dir, *data_dir.parents) if not one.exists()]
    make_private_folder(data_dir)
    try:
        yield
    finally:
        with suppress(OSError):  # somebody has put something there meanwhile
            for folder in missing:
                folder.rmdir()


def show_lines(console: Console, url: str, key: str, document_id: str, question: str) -> None:
    """Print commands that can be copied, for another terminal."""
    body = json.dumps({"question": question}, ensure_ascii=False).replace("'", "'\\''")
    python = (
        "import httpx, sys; "
        f"print(httpx.post('{url}/documents/{document_id}/ask', "
        f"headers={{'Authorization': 'Bearer {key}'}}, json={{'question': sys.argv[1]}}, "
        "timeout=60).json()['answer'])"
    )
    quoted = question.replace("'", "'\\''")
    server = f"LECTERN_URL={url} LECTERN_API_KEY={key}"
    say(console, f"chat: {server} {_command()} chat {document_id[:ID_CHARS]}")
    say(
        console,
        f"curl: curl -s {url}/documents/{document_id}/ask -H 'Authorization: Bearer {key}' "
        f"-H 'Content-Type: application/json' -d '{body}'",
    )
    say(console, f"Python: {sys.executable} -c \"{python}\" '{quoted}'")


def _row(asked: AskedQuestion, reading_ms: float) -> tuple[Text, Text, str, str]:
    passages = asked.body["evidence"]
    quote = one_line(passages[0]["quote"], MAX_PASSAGE_CHARS) if passages else "(none)"
    question = Text.assemble(asked.question, "\n", (quote, "dim italic"))
    verdict = ("right", "green") if asked.is_right else ("wrong", "bold red")
    answer = Text.assemble(
        asked.body["answer"], "\n", (f"expected: {asked.expected}", "dim"), "\n", verdict
    )
    first_token = format_duration(asked.body["timings_ms"]["first_token"])
    budget = budget_line(asked.body["budget"]).replace(", ", "\n")
    return question, answer, budget, f"{first_token}\nre-reading: {format_duration(reading_ms)}"


def _normalize(answer: str) -> str:
    return " ".join(answer.lower().split()).rstrip(".")


def _model_name(path: str) -> str:
    return "the bundled reader" if path == str(WEIGHTS) else path
