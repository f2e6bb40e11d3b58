"""Questions on the command line: one, or a conversation."""

import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from cli.client import Client, Refused
from cli.documents import find, print_json, resolve
from cli.show import answer_details, say, warn
from common.errors import InvalidInput

FROM_INPUT = "-"
ENDS = frozenset({"/quit", "/exit"})
ANEW = "/new"
MOST_TURNS = 20
PROMPT = "> "


def read_question(argument: str | None) -> str:
    """Return the question that was given, or else what standard input holds.

    Raises: InvalidInput if there is none.
    """
    if argument is not None and argument != FROM_INPUT:
        return argument
    if sys.stdin.isatty():
        warn("Type the question; Ctrl-D in a line of its own ends it.")
    question = sys.stdin.read().strip()
    if not question:
        raise InvalidInput("Standard input holds no question.")
    return question


def ask(
    client: Client, console: Console, name: str, question: str, options: Mapping[str, Any]
) -> None:
    """Print an answer as it comes, then its evidence, budget and times; thinking is dimmed."""
    _show_answer(client, console, resolve(client, name), question, options)


def ask_json(
    client: Client, console: Console, name: str, question: str, options: Mapping[str, Any]
) -> None:
    """Print the whole answer as the server's JSON."""
    print_json(console, client.ask(resolve(client, name), question, **options))


def chat(client: Client, console: Console, name: str, options: Mapping[str, Any]) -> None:
    """Answer one question after the other, each with those before it; nothing is kept of them.

    Ctrl-C stops the answer that is being written. Without a terminal each line of standard input is
    a question, and the first error ends it.
    """
    document = find(client, name)
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        _edit_lines()
        say(console, f"About {document['filename']}. {ANEW} begins anew, Ctrl-D ends.")
    turns: list[dict[str, str]] = []
    while (question := _next_question(is_terminal)) is not None:
        if question in ENDS:
            return
        if question == ANEW:
            turns.clear()
        if not question or question == ANEW:
            continue
        earlier = {"turns": turns[-MOST_TURNS:], "drop_oldest_turns": True} if turns else {}
        try:
            answer = _show_answer(client, console, document["id"], question, {**options, **earlier})
        except KeyboardInterrupt:
            if not is_terminal:
                raise
            say(console, "\nStopped.\n")
            continue
        except Refused as error:
            if not is_terminal:
                raise
            warn(error.message)
            continue
        if answer.get("num_dropped_turns"):
            warn(f"{answer['num_dropped_turns']} earlier questions did not fit and were left out.")
        turns.append({"question": question, "answer": str(answer["answer"])})
        say(console)


def _show_answer(
    client: Client, console: Console, document_id: str, question: str, options: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Print an answer as it comes; return its body."""
    was_thinking, body = False, dict[str, Any]()
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
            body = data
            console.print()
            console.print(answer_details(data))
    return body


def _next_question(is_terminal: bool) -> str | None:
    """Return the next line; None at the end of the input."""
    if is_terminal:
        try:
            return input(PROMPT).strip()
        except EOFError:
            sys.stdout.write("\n")
            return None
    line = sys.stdin.readline()
    return line.strip() if line else None


def _edit_lines() -> None:
    """Let lines be edited and called back, where the system can; no file is written."""
    try:
        import readline  # noqa: F401  it takes over `input`
    except ImportError:
        return
