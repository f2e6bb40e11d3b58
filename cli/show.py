"""How documents, progress and answers look in a terminal."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
)
from rich.table import Table
from rich.text import Text

PHASES = {
    "extract": "extracting text",
    "prefill": "reading",
    "cluster": "clustering",
    "calibrate": "calibrating",
    "pack": "packing",
}
ENDS = frozenset({"ready", "failed"})
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
STYLES = {"ready": "green", "failed": "red"}
ID_CHARS = 8
PLAIN_WIDTH = 110  # where no terminal says how wide it is


def make_console() -> Console:
    """A console on standard output; into files and pipes it writes plain text of a fixed width."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)


def say(console: Console, text: str = "") -> None:
    """Print text as it is: no markup, no wrapping, so that it can be copied."""
    console.print(text, markup=False, soft_wrap=True)


class _Elapsed(ProgressColumn):
    """Seconds since the task began; rich's own column stops when the first phase is through."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.elapsed or 0:.0f} s", style="progress.elapsed")


class ReadingBar:
    """A progress bar that follows a document's events."""

    def __init__(self, progress: Progress, filename: str) -> None:
        self._progress = progress
        self._filename = escape(filename)
        self._task: TaskID = progress.add_task(f"{self._filename}: waiting", total=None)

    def update(self, event: Mapping[str, Any]) -> None:
        """Show one event: {"status", "phase", "tokens_done", "tokens_total"}."""
        status, total = event["status"], event.get("tokens_total") or None
        done = total if status == "ready" else event.get("tokens_done")
        shown = status if status in ENDS else PHASES.get(event.get("phase") or "", status)
        self._progress.update(
            self._task,
            description=f"{self._filename}: {escape(str(shown))}",
            total=total,
            completed=done or 0,
        )


@contextmanager
def reading_bars(console: Console) -> Iterator[Progress]:
    """Bars of tokens, one a document; without a terminal only their last state is printed."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("tokens"),
        _Elapsed(),
        console=console,
    ) as progress:
        yield progress


def documents_table(documents: Iterable[Mapping[str, Any]]) -> Table:
    """One row a document; ids are cut to the beginning that commands take for them."""
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
            number(document["num_tokens"]),
            number(document["num_pages"]),
            size(document["num_bytes"]),
            size(document["cache_bytes"]),
            when(document["created_at"]),
        )
    return table


def status_text(document: Mapping[str, Any]) -> Text:
    """The status, with what came of it."""
    status = document["status"]
    text = Text(status, style=STYLES.get(status, "yellow"))
    progress = document.get("progress")
    if document.get("error"):
        text.append(f" ({document['error']['code']})")
    elif progress and progress.get("tokens_total"):
        text.append(f" {100 * progress['tokens_done'] // progress['tokens_total']} %")
    return text


def answer_details(answer: Mapping[str, Any]) -> Table:
    """Where the model looked, how much it read and how long it took."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for passage in answer["evidence"]:
        table.add_row(f"page {passage['page']}", Text(one_line(passage["quote"])))
    table.add_row("budget", budget_line(answer["budget"]))
    timings = answer["timings_ms"]
    source = "cache in memory" if answer["cache_hit"] else f"loaded in {ms(timings['load'])}"
    table.add_row("time", f"first token {ms(timings['first_token'])}, {source}")
    return table


def budget_line(budget: Mapping[str, Any]) -> str:
    """Requested and loaded shares of the document's cache."""
    raised = f", raised to {percent(budget['applied'])}" if budget["raised"] else ""
    return f"{percent(budget['requested'])} requested{raised}, {percent(budget['loaded'])} loaded"


def one_line(text: str, most: int = 300) -> str:
    """Text without line breaks, cut with an ellipsis."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "\u2026"


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %"


def ms(milliseconds: float) -> str:
    """A duration, in the unit that reads best."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.1f} s"


def number(value: int | None) -> str:
    """A count, or a dash for none yet."""
    return "-" if value is None else f"{value:,}"


def size(num_bytes: int | None) -> str:
    """Bytes in binary units."""
    if num_bytes is None:
        return "-"
    value, unit = float(num_bytes), 0
    while value >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {UNITS[unit]}" if unit == 0 else f"{value:.1f} {UNITS[unit]}"


def when(moment_s: int | None) -> str:
    """A moment in the terminal's time zone."""
    if moment_s is None:
        return "-"
    return datetime.fromtimestamp(moment_s).astimezone().strftime("%Y-%m-%d %H:%M")
