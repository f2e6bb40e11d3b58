"""Show documents, progress and answers in a terminal."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
)
from rich.table import Column, Table
from rich.text import Text

from common.format import NO_VALUE, format_bytes, format_count, format_duration, format_share
from common.status import DocumentStatus, Phase

# The keys are compared with what a server sends, which may be of another version.
PHASE_LABELS: Mapping[str, str] = {
    Phase.EXTRACT: "extracting text",
    Phase.TOKENIZE: "tokenizing",
    Phase.PREFILL: "reading",
    Phase.CLUSTER: "clustering",
    Phase.CALIBRATE: "calibrating",
    Phase.PACK: "packing",
}
STATUS_STYLES: Mapping[str, str] = {DocumentStatus.READY: "green", DocumentStatus.FAILED: "red"}
FINAL_STATUSES = tuple(status for status in DocumentStatus if status.is_final)
ID_CHARS = 8
PLAIN_WIDTH = 110  # columns, where there is no terminal that has a width
MAX_PASSAGE_CHARS = 300
MAX_NAME_WIDTH = 48  # columns of a document's name and phase beside its bar


def make_console() -> Console:
    """Make a console on standard output, which writes plain text to files and pipes."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)


def say(console: Console, text: str = "") -> None:
    """Print text without markup and wrapping, so that it can be copied."""
    console.print(text, markup=False, soft_wrap=True)


def warn(text: str) -> None:
    """Print a sentence on standard error, beside what a program may read."""
    Console(stderr=True, highlight=False).print(text, markup=False, soft_wrap=True)


class _Elapsed(ProgressColumn):
    """Seconds since the task began. The column of rich stops at the end of the first phase."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.elapsed or 0:.0f} s", style="progress.elapsed")


class _Tokens(ProgressColumn):
    """Tokens that are done, and all of them; nothing before a document's length is known."""

    def render(self, task: Task) -> Text:
        if not task.fields["is_known"]:
            return Text("")
        done, total = format_count(int(task.completed)), format_count(int(task.total or 0))
        return Text(f"{done}/{total} tokens", style="progress.download")


class ReadingBar:
    """A progress bar that follows a document's events, and stands still when it has ended."""

    def __init__(self, progress: Progress, filename: str) -> None:
        self._progress = progress
        self._filename = escape(filename)
        self._task: TaskID = progress.add_task(
            f"{self._filename}: waiting", total=1, is_known=False
        )

    def update(self, event: Mapping[str, Any]) -> None:
        """Show one event: {"status", "phase", "tokens_done", "tokens_total"}."""
        status, total = event["status"], event.get("tokens_total") or 0
        done = total or 1 if status == DocumentStatus.READY else event.get("tokens_done")
        is_final = status in FINAL_STATUSES
        label = status if is_final else PHASE_LABELS.get(event.get("phase") or "", status)
        self._progress.update(
            self._task,
            description=f"{self._filename}: {escape(str(label))}",
            total=total or 1,
            completed=done or 0,
            is_known=total > 0,
        )
        if is_final:
            self._progress.stop_task(self._task)


@contextmanager
def reading_bars(console: Console, *, disable: bool = False) -> Iterator[Progress]:
    """Show progress bars while the block runs; without a terminal, only their last state.

    Args:
        disable: whether to show none.
    """
    name = Column(no_wrap=True, overflow="ellipsis", max_width=MAX_NAME_WIDTH)
    with Progress(
        TextColumn("{task.description}", table_column=name),
        BarColumn(bar_width=24),
        _Tokens(table_column=Column(no_wrap=True)),
        _Elapsed(table_column=Column(no_wrap=True, justify="right")),
        console=console,
        disable=disable,
    ) as progress:
        yield progress


def documents_table(documents: Iterable[Mapping[str, Any]]) -> Table:
    """Make a table of documents; ids are shortened, and commands accept the shortened ids."""
    table = Table(box=None, pad_edge=False)
    table.add_column("Id", no_wrap=True)
    for name in ("Name", "Status"):
        table.add_column(name, overflow="fold")
    for name in ("Tokens", "Pages", "Size", "Cache"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("Added", no_wrap=True)
    for document in documents:
        table.add_row(
            document["id"][:ID_CHARS],
            Text(document["filename"]),
            status_text(document),
            format_count(document["num_tokens"]),
            format_count(document["num_pages"]),
            format_bytes(document["num_bytes"]),
            format_bytes(document["stored_bytes"]),
            format_moment(document["created_at"]),
        )
    return table


def document_details(document: Mapping[str, Any]) -> Table:
    """Make a table of all that is known about one document."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("id", str(document["id"]))
    table.add_row("name", Text(document["filename"]))
    table.add_row("status", status_text(document))
    if document.get("error"):
        table.add_row("reason", Text(document["error"]["message"] or ""))
    length, num_pages = f"{format_count(document['num_tokens'])} tokens", document["num_pages"]
    pages = "1 page" if num_pages == 1 else f"{format_count(num_pages)} pages"
    table.add_row("length", f"{length}, {pages}")
    kind = f"{format_bytes(document['num_bytes'])}, {document['media_type']}"
    table.add_row("file", Text(kind))
    cache = format_bytes(document["stored_bytes"])
    tier = document.get("tier")
    where = {"device": "in memory", "host": "in the host's memory", "disk": "on the disk"}
    place = f", {where.get(str(tier), str(tier))}" if tier else ""
    stale = ", of other settings: read again when asked" if document.get("is_stale") else ""
    pinned = ", pinned" if document.get("pinned") else ""
    table.add_row("cache", f"{cache}{place}{pinned}{stale}")
    table.add_row("added", format_moment(document["created_at"]))
    reading_ms = document.get("reading_ms")
    if reading_ms:
        took = reading_ms.get("total") or reading_ms["prefill"]
        table.add_row("read", f"{format_moment(document['ready_at'])}, in {format_duration(took)}")
    if document.get("expires_at"):
        table.add_row("deleted", f"on {format_moment(document['expires_at'])}")
    for warning in document.get("warnings", ()):
        table.add_row("warning", Text(warning["message"], style="yellow"))
    return table


def status_text(document: Mapping[str, Any]) -> Text:
    """Return the status in its colour, with the error code or the progress."""
    status = document["status"]
    text = Text(status, style=STATUS_STYLES.get(status, "yellow"))
    progress = document.get("progress")
    if document.get("error"):
        text.append(f" ({document['error']['code']})")
    elif progress and progress.get("tokens_total"):
        text.append(f" {100 * progress['tokens_done'] // progress['tokens_total']} %")
    return text


def answer_details(answer: Mapping[str, Any]) -> Table:
    """Make a table of an answer's evidence, budget and times."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for quote in answer.get("quotes", ()):
        page = "" if quote["page"] is None else f"page {quote['page']}, "
        table.add_row("quoted", f"{page}characters {quote['start_char']} to {quote['end_char']}")
    unfounded = [one["text"] for one in answer.get("grounded") or () if not one["is_grounded"]]
    if unfounded:
        said = f"not in the document: {', '.join(unfounded)}"
        table.add_row("caution", Text(one_line(said), style="yellow"))
    for passage in answer["evidence"]:
        table.add_row(_place(passage), Text(one_line(passage["quote"])))
    table.add_row("budget", budget_line(answer["budget"]))
    timings = answer["timings_ms"]
    source = _source(answer)
    table.add_row("time", f"first token {format_duration(timings['first_token'])}, {source}")
    return table


def _source(answer: Mapping[str, Any]) -> str:
    """Where an answer comes from: an earlier one, or a cache in memory or on the disk."""
    if answer.get("stored"):
        return "answered before (--anew computes it again)"
    load_time = format_duration(answer["timings_ms"]["load"])
    return "cache in memory" if answer["cache_hit"] else f"loaded in {load_time}"


def _place(passage: Mapping[str, Any]) -> str:
    """Where a passage stands: its page, or else the number of its paragraph."""
    if passage["page"] is not None:
        return f"page {passage['page']}"
    return "heading" if passage["paragraph"] is None else f"paragraph {passage['paragraph']}"


def budget_line(budget: Mapping[str, Any]) -> str:
    """Return the requested and the loaded share of the document's cache as one line."""
    requested, loaded = format_share(budget["requested"]), format_share(budget["loaded"])
    raised = f", raised to {format_share(budget['applied'])}" if budget["raised"] else ""
    if (tolerance := budget["tolerance"]) is None:
        return f"{requested} requested{raised}, {loaded} loaded"
    chosen = f"{requested} chosen to lose at most {format_share(tolerance)} of the answers"
    return f"{chosen}{raised}, {loaded} loaded"


def one_line(text: str, max_chars: int = MAX_PASSAGE_CHARS) -> str:
    """Return a text without line breaks; a long one is cut and ends in an ellipsis."""
    text = " ".join(text.split())
    return text if len(text) <= max_chars else text[: max_chars - 1].rstrip() + "\u2026"


def format_moment(unix_s: int | None) -> str:
    """Write a moment in the terminal's time zone.

    Args:
        unix_s: Unix seconds; None if there is no moment.
    """
    if unix_s is None:
        return NO_VALUE
    return datetime.fromtimestamp(unix_s).astimezone().strftime("%Y-%m-%d %H:%M")
