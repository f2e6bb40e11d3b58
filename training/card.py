"""Write the model card: its text is card.md.jinja, its figures come from bench/results/.

python -m training.card
"""

import json
from pathlib import Path
from textwrap import fill
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from reader import WEIGHTS
from training.cells import ARTICLE, EXCERPTS, HELD_OUT_NAME, PARAGRAPH, PARAPHRASES, cells
from training.history import read_log, runs_of
from training.report import Row, rows_of, short_length
from training.weights import shape_of

FOLDER = Path(__file__).parent

CARD = WEIGHTS / "README.md"
RESULTS = FOLDER.parent / "bench" / "results"
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
    return environment.get_template("card.md.jinja").render(
        **_of_model(), **_of_table(_read("reader.json")), **_of_training(),
        invented=_right_answers(_read("invented.json")),
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
    planted = [cell for cell in cells() if cell.name in result["cells"]]
    widest = max(planted, key=lambda cell: len(cell.lengths)).lengths
    everywhere = [cell.name for cell in planted if cell.lengths == widest]
    table = {(row.cell, row.length): row for row in rows}
    lengths = [length for length in widest if any((name, length) in table for name in everywhere)]
    elsewhere = [row for row in rows if row.length and row.cell not in everywhere]
    held_out = [row for row in elsewhere if HELD_OUT_NAME in row.cell]
    worded = [row for row in held_out if EXCERPTS not in row.cell]
    return {
        "table": table,
        "lengths": lengths,
        "unmeasured": [length for length in widest if length not in lengths],
        "at_every_length": everywhere,
        "at_one_length": elsewhere,
        "held_out": [row for row in worded if PARAPHRASES not in row.cell],
        "paraphrased": [row for row in worded if PARAPHRASES in row.cell],
        "excerpts": [row for row in held_out if EXCERPTS in row.cell],
        "weak": [row for row in rows if row.length and _is_weak(row) and row not in held_out],
        "paragraph": table[PARAGRAPH, 0],
        "article": table[ARTICLE, 0],
        "questions": min(row.questions for row in rows if row.length),
        "false_refusals": result.get("false_refusals"),
    }


def _of_training() -> dict[str, Any]:
    runs = runs_of(read_log(RESULTS / "reader-training.jsonl"))
    return {"runs": runs, "longest": max(length for run in runs for length in run.lengths)}


def _right_answers(result: dict[str, Any]) -> dict[str, int]:
    return {name: found["balanced"]["right"] for name, found in result["documents"].items()}


def _is_weak(row: Row) -> bool:
    return row.exact_match < _WEAK


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / name).read_text())
    return found


def main() -> None:
    """Write the card."""
    CARD.write_text(card())


if __name__ == "__main__":
    main()
