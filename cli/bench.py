"""`lectern bench`: measure again what the project says about itself."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from cli.show import make_console, number, say

if TYPE_CHECKING:  # torch takes seconds that `--help` need not wait
    from reader.report import Row
    from reader.tasks import Plan

app = typer.Typer(name="bench", help="Measure accuracy again.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """A group of commands, though it has only one yet."""


@app.command()
def reader(
    data: Annotated[
        Path,
        typer.Option(
            exists=True, file_okay=False, help="Folder with the held-out books/ and with squad/."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The result to write (JSON).", dir_okay=False)] = Path(
        "reader.json"
    ),
    weights: Annotated[
        Path | None,
        typer.Option(help="Another reader's folder.", exists=True, show_default=False),
    ] = None,
    cell: Annotated[
        list[str] | None, typer.Option(help="A cell by its name; again for more; all if none.")
    ] = None,
    length: Annotated[
        list[int] | None,
        typer.Option(
            help="Of documents, in tokens; 0 for those that are as long as they are; again for "
            "more; all if none."
        ),
    ] = None,
    questions: Annotated[int, typer.Option(min=2, help="In each cell, at least.")] = 200,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: the GPU if there is one.")] = (
        "auto"
    ),
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes, spread over the GPUs.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of documents and questions.")] = 1,
) -> None:
    """Ask the bundled reader what it never saw, and print how often it is right.

    Documents are made anew from the seed, out of books, names and articles that training never saw.
    Answers are decoded greedily and freely. The result is written after each cell. The whole table
    wants a GPU; on a CPU, name a cell and a length.
    """
    from reader.evaluate import choose_device, default_workers
    from reader.tasks import FOLDER, Plan

    chosen = choose_device(device)
    plan = Plan(
        weights=weights or FOLDER / "weights",
        data=data,
        device=chosen,
        cells=tuple(cell or ()),
        lengths=tuple(length or ()),
        questions=questions,
        seed=seed,
        workers=workers or default_workers(chosen),
    )
    console = make_console()
    rows = _measure(console, plan, out)
    console.print(_table(rows))
    say(console, f"Written to {out}.")


def _measure(console: Console, plan: "Plan", out: Path) -> list["Row"]:
    """Evaluate with a progress bar; the rows of the table."""
    from reader.evaluate import evaluate
    from reader.report import rows_of

    with Progress(
        TextColumn("examining documents"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
    ) as bars:
        task = bars.add_task("", total=None)
        for step in evaluate(plan, out):
            bars.update(task, completed=step.done, total=step.total)
    return list(rows_of(json.loads(out.read_text())))


def _table(rows: list["Row"]) -> Table:
    table = Table("Cell")
    for name in ("Tokens", "Questions", "Exact match [95 %]", "F1 of words [95 %]", "Refused"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.cell,
            number(row.length) if row.length else "own",
            number(row.questions),
            row.share(),
            row.overlap(),
            f"{row.refused:.3f}",
        )
    return table
