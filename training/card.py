"""Write the model card: its text is card.md.jinja, its figures come from training/results/.

python -m training.card
"""

import json
from pathlib import Path
from textwrap import fill
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from reader import WEIGHTS
from training import RESULTS
from training.eval_tasks import (
    ARTICLE,
    EXCERPTS,
    HELD_OUT_NAME,
    PARAGRAPH,
    PARAPHRASES,
    eval_tasks,
)
from training.history import read_log, runs_of
from training.report import ResultRow, rows_of, short_length
from training.weights import shape_of

FOLDER = Path(__file__).parent

CARD = WEIGHTS / "README.md"
_WEAK = 0.9
_WIDTH = 100
_BF16_BYTES = 2


def card() -> str:
    """The card's text."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["wrapped"] = wrapped
    served, full = "reader.json", "reader_full_attention.json"
    is_served = (RESULTS / served).is_file()
    return environment.get_template("card.md.jinja").render(
        **_of_model(), **_of_table(_read(served if is_served else full)), **_of_training(),
        is_served=is_served, full=_rows_by_place(full) if is_served else {},
        fictional=_right_answers(_read("fictional_balanced.json")),
        count="{:,}".format, short=short_length,
    )  # fmt: skip


def wrapped(text: str) -> str:
    """Each line broken into lines of 100 characters; list items stay one."""
    return "\n".join(
        fill(
            line,
            _WIDTH,
            subsequent_indent="  " if line.startswith("- ") else "",
            break_on_hyphens=False,
            break_long_words=False,
        )
        for line in text.split("\n")
    )


def _of_model() -> dict[str, Any]:
    index = json.loads((WEIGHTS / "model.safetensors.index.json").read_text())
    return {
        "shape": shape_of(json.loads((WEIGHTS / "config.json").read_text())),
        "parameters": index["metadata"]["total_size"] // _BF16_BYTES,
    }


def _of_table(result: dict[str, Any]) -> dict[str, Any]:
    rows = list(rows_of(result))
    with_needles = [task for task in eval_tasks() if task.name in result["cells"]]
    widest = max(with_needles, key=lambda task: len(task.lengths)).lengths
    everywhere = [task.name for task in with_needles if task.lengths == widest]
    table = {(row.task, row.length): row for row in rows}
    lengths = [length for length in widest if any((name, length) in table for name in everywhere)]
    elsewhere = [row for row in rows if row.length and row.task not in everywhere]
    held_out = [row for row in elsewhere if HELD_OUT_NAME in row.task]
    worded = [row for row in held_out if EXCERPTS not in row.task]
    return {
        "about": result["about"],
        "table": table,
        "lengths": lengths,
        "unmeasured": [length for length in widest if length not in lengths],
        "at_every_length": everywhere,
        "at_one_length": elsewhere,
        "held_out": [row for row in worded if PARAPHRASES not in row.task],
        "paraphrased": [row for row in worded if PARAPHRASES in row.task],
        "excerpts": [row for row in held_out if EXCERPTS in row.task],
        "weak": [row for row in rows if row.length and _is_weak(row) and row not in held_out],
        "paragraph": table[PARAGRAPH, 0],
        "article": table[ARTICLE, 0],
        "questions": min(row.questions for row in rows if row.length),
        "false_refusals": result.get("false_refusals"),
    }


def _rows_by_place(name: str) -> dict[tuple[str, int], ResultRow]:
    """The rows of a result by task and length."""
    return {(row.task, row.length): row for row in rows_of(_read(name))}


def _of_training() -> dict[str, Any]:
    runs = runs_of(read_log(RESULTS / "reader-training.jsonl"))
    return {"runs": runs, "longest": max(length for run in runs for length in run.lengths)}


def _right_answers(result: dict[str, Any]) -> dict[str, int]:
    return {name: rows["own"]["right"] for name, rows in result["cells"].items()}


def _is_weak(row: ResultRow) -> bool:
    return row.exact_match < _WEAK


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / name).read_text())
    return found


def main() -> None:
    """Write the card."""
    CARD.write_text(card())


if __name__ == "__main__":
    main()
