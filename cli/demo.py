"""`lectern demo`: the whole way of a document, shown on a handbook that comes with the reader."""

import json
import re
import signal
import socket
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.client import Client
from cli.compose import make_secrets, open_stack
from cli.documents import follow
from cli.serving import serving
from cli.settings import Settings
from cli.show import budget_line, ms, number, one_line, say, size
from common.errors import InvalidInput, Permanent
from common.logging import configure
from reader import HANDBOOK, WEIGHTS

MUST_BE_RIGHT = 6
PASSAGE_CHARS = 200


class DemoFailed(Permanent):
    """Too many answers were wrong."""

    code = "demo_failed"


@dataclass(frozen=True)
class Asked:
    """A question with the expected and the given answer (the whole body)."""

    question: str
    expected: str
    body: dict[str, Any]

    @property
    def right(self) -> bool:
        """Whether the answers agree but for case, blanks and a final period."""
        return _plain(self.body["answer"]) == _plain(self.expected)


def run(
    console: Console,
    settings: Settings,
    listener: socket.socket,
    *,
    stay: bool,
    folder: Path = HANDBOOK,
) -> None:
    """Serve, upload, ask, report; then with `stay` keep serving until Ctrl-C.

    Args:
        listener: a bound socket.
        folder: holds one Markdown file and questions.json ([{"question", "answer"}]).
    Raises: InvalidInput if it does not; DemoFailed if fewer than six answers are right;
        CannotServe.
    """
    handbook, questions = find(folder)
    configure("ERROR")
    # A shell's background job starts with SIGINT ignored; stopping must work there too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="demo-", dir=settings.data_dir) as data_dir:
        own = settings.model_copy(update={"data_dir": Path(data_dir)})
        try:
            _run(console, own, listener, handbook, questions, stay=stay)
        except KeyboardInterrupt:
            say(console, "Stopped.")


def _run(
    console: Console,
    settings: Settings,
    listener: socket.socket,
    handbook: Path,
    questions: Path,
    *,
    stay: bool,
) -> None:
    say(console, f"Loading {_shown(settings.model_files().path)} ...")
    stack = open_stack(settings)
    secrets = make_secrets(stack)
    with serving(stack, listener) as url, Client(url, secrets.api_key) as client:
        document = read(client, console, handbook)
        asked = ask_all(client, console, document["id"], questions)
        report(console, document, asked)
        judge(asked)
        show_limits(console, settings)
        show_next_steps(console, url, str(secrets.api_key), document["id"], asked[0].question)
        if secrets.admin_password:
            say(console, f"Dashboard: {url}/admin  password {secrets.admin_password}")
        if stay:
            say(console, "\nThe server keeps running. Ctrl-C stops it and removes the demo's data.")
            threading.Event().wait()


def find(folder: Path) -> tuple[Path, Path]:
    """The one Markdown file of a folder, and its questions.

    Raises: InvalidInput if they are not there.
    """
    handbooks, questions = list(folder.glob("*.md")), folder / "questions.json"
    if len(handbooks) != 1 or not questions.is_file():
        raise InvalidInput(f"'{folder}' must hold one Markdown file and questions.json.")
    return handbooks[0], questions


def read(client: Client, console: Console, path: Path) -> dict[str, Any]:
    """Upload a document, show how it is being read, return it when it is ready."""
    say(console, f"Uploading {path.name} and reading it once:")
    document = client.upload_path(path)
    failures = follow(client, console, [document])
    if failures:
        raise DemoFailed(failures[0])
    document = client.document(document["id"])
    say(
        console,
        f"Read {number(document['num_tokens'])} tokens in {ms(document['reading_ms'])}; the cache "
        f"has {size(document['cache_bytes'])}.",
    )
    return document


def ask_all(client: Client, console: Console, document_id: str, path: Path) -> list[Asked]:
    """Ask every question of the file, one after the other."""
    questions = json.loads(path.read_text(encoding="utf-8"))
    asked = []
    with console.status("asking") as status:
        for index, item in enumerate(questions, 1):
            status.update(f"asking question {index} of {len(questions)}")
            body = client.ask(document_id, item["question"], budget="balanced")
            asked.append(Asked(item["question"], item["answer"], body))
    return asked


def report(console: Console, document: dict[str, Any], asked: list[Asked]) -> None:
    """Print the table of answers and the sums below it."""
    reading_ms = document["reading_ms"]
    table = Table(show_lines=True)
    table.add_column("Question, passage attended to", ratio=5, overflow="fold")
    table.add_column("Given and expected answer", ratio=3, overflow="fold")
    table.add_column("Budget", ratio=2)
    table.add_column("First token", ratio=2)
    for one in asked:
        table.add_row(*_row(one, reading_ms))
    console.print(table)
    first_ms = median(one.body["timings_ms"]["first_token"] for one in asked)
    right = sum(one.right for one in asked)
    say(
        console,
        f"{right} of {len(asked)} right. First token after {ms(first_ms)} (median); reading the "
        f"document again takes {ms(reading_ms)}, {number(round(reading_ms / first_ms))} times as "
        "long.",
    )


def judge(asked: list[Asked]) -> None:
    """Raises: DemoFailed if too many are wrong."""
    right = sum(one.right for one in asked)
    if right < MUST_BE_RIGHT:
        raise DemoFailed(
            f"Only {right} of {len(asked)} answers are right; {MUST_BE_RIGHT} are needed."
        )


def show_limits(console: Console, settings: Settings) -> None:
    """Print what the bundled reader cannot do, from its model card."""
    lines = [] if settings.model else limits(WEIGHTS / "README.md")
    if lines:
        say(console, "\nWhat the bundled reader cannot do:")
        for line in lines:
            console.print(Text(f"- {line}"))


def limits(card: Path) -> list[str]:
    """The list items under the heading "Limits" of a model card, unwrapped and without markup."""
    if not card.exists():
        return []
    section = re.search(
        r"^#+[^\n]*\blimits\b[^\n]*\n(.*?)(?=^#|\Z)",
        card.read_text(encoding="utf-8"),
        re.IGNORECASE | re.MULTILINE | re.DOTALL,
    )
    items = re.split(r"^[-*] ", section[1], flags=re.MULTILINE)[1:] if section else []
    return [re.sub(r"[*`]", "", " ".join(item.split("\n\n")[0].split())) for item in items]


def show_next_steps(console: Console, url: str, key: str, document_id: str, question: str) -> None:
    """Print the address and two lines to copy."""
    body = json.dumps({"question": question}, ensure_ascii=False).replace("'", "'\\''")
    python = (
        "import httpx, sys; "
        f"print(httpx.post('{url}/documents/{document_id}/ask', "
        f"headers={{'Authorization': 'Bearer {key}'}}, json={{'question': sys.argv[1]}}, "
        "timeout=60).json()['answer'])"
    )
    asked = question.replace("'", "'\\''")
    say(console, f"\nURL: {url}")
    say(
        console,
        f"curl: curl -s {url}/documents/{document_id}/ask -H 'Authorization: Bearer {key}' "
        f"-H 'Content-Type: application/json' -d '{body}'",
    )
    say(console, f"Python: {sys.executable} -c \"{python}\" '{asked}'")


def _row(one: Asked, reading_ms: float) -> tuple[Text, Text, str, str]:
    passages = one.body["evidence"]
    quote = one_line(passages[0]["quote"], PASSAGE_CHARS) if passages else "(none)"
    question = Text.assemble(one.question, "\n", (quote, "dim italic"))
    verdict = ("right", "green") if one.right else ("wrong", "bold red")
    answer = Text.assemble(
        one.body["answer"], "\n", (f"expected: {one.expected}", "dim"), "\n", verdict
    )
    first_ms = one.body["timings_ms"]["first_token"]
    budget = budget_line(one.body["budget"]).replace(", ", "\n")
    return question, answer, budget, f"{ms(first_ms)}\nre-reading: {ms(reading_ms)}"


def _plain(answer: str) -> str:
    return " ".join(answer.lower().split()).rstrip(".")


def _shown(path: str) -> str:
    return "the bundled reader" if path == str(WEIGHTS) else path
