"""Write the model card: its text is card.md.jinja, its figures come from training/results/.

python -m training.card
"""

import json
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from engine.model.fingerprint import weights_fingerprint
from reader import WEIGHTS
from training import RESULTS
from training.comparison import answers_of, paired_difference
from training.eval_tasks import (
    ARTICLE,
    EXCERPTS,
    HELD_OUT_NAME,
    OWN_LENGTH,
    PARAGRAPH,
    PARAPHRASES,
    eval_tasks,
)
from training.history import read_log, runs_of
from training.report import ResultRow, rows_of, short_length
from training.weights import shape_of

FOLDER = Path(__file__).parent

CARD = WEIGHTS / "README.md"
SERVED, FULL, RELEASED = "reader.json", "reader_full_attention.json", "release.json"
_WEAK = 0.9
PLANTED = ("single", "same attribute", "same entity")
_WIDTH = 100
_BF16_BYTES = 2


def card() -> str:
    """The card's text.

    Raises: ValueError if a result that it needs is of other weights than those that ship.
    """
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["wrapped"] = wrapped
    full = _read(FULL)
    served, released = (
        _read(name) if (RESULTS / name).is_file() else None for name in (SERVED, RELEASED)
    )
    return environment.get_template("card.md.jinja").render(
        **_of_model(), **_of_table(served or full), **_of_training(),
        is_served=served is not None, shown=shown(served or full),
        full={(row.task, row.length): row for row in rows_of(full)} if served else {},
        difference=partial(difference, served or full, full),
        released=list(rows_of(released)) if released else [],
        fictional=_right_answers(_read("fictional_balanced.json")),
        count="{:,}".format, short=short_length,
    )  # fmt: skip


def shown(result: dict[str, Any]) -> dict[str, float] | None:
    """How often the reader is right about planted facts, and about natural prose beside them.

    Returns: both shares; None where the result lacks one of them.
    """
    planted = answers_of(result, [(task, 16_384) for task in PLANTED])
    natural = answers_of(result, [(f"{EXCERPTS}, {HELD_OUT_NAME}", 16_384)])
    if planted is None or natural is None:
        return None
    return {"planted": planted.share, "natural": natural.share}


def difference(served: dict[str, Any], full: dict[str, Any], row: ResultRow) -> str:
    """How much more often the reader is right as served, in pairs of the same questions."""
    one, other = (answers_of(result, [(row.task, row.length)]) for result in (served, full))
    found = paired_difference(one, other) if one and other else None
    if found is None:
        return "unpaired"
    low, high = found.right_interval
    return f"{found.right:+.3f} [{low:+.3f}, {high:+.3f}]"


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
    natural = [row for row in rows if EXCERPTS in row.task or row.task in (PARAGRAPH, ARTICLE)]
    elsewhere = [row for row in rows if row.length and row.task not in everywhere]
    planted = [row for row in elsewhere if row not in natural]
    held_out = [row for row in planted if HELD_OUT_NAME in row.task]
    return {
        "about": result["about"],
        "table": table,
        "lengths": lengths,
        "unmeasured": [length for length in widest if length not in lengths],
        "at_every_length": everywhere,
        "planted": planted,
        "natural": natural,
        "held_out": [row for row in held_out if PARAPHRASES not in row.task],
        "paraphrased": [row for row in held_out if PARAPHRASES in row.task],
        "excerpts": [row for row in natural if row.length and HELD_OUT_NAME in row.task],
        "weak": [row for row in elsewhere if _is_weak(row) and HELD_OUT_NAME not in row.task],
        "paragraph": table[PARAGRAPH, OWN_LENGTH],
        "article": table[ARTICLE, OWN_LENGTH],
        "questions": min(row.questions for row in rows if row.length),
        "false_refusals": result.get("false_refusals"),
    }


def _of_training() -> dict[str, Any]:
    runs = runs_of(read_log(RESULTS / "reader-training.jsonl"))
    return {"runs": runs, "longest": max(length for run in runs for length in run.lengths)}


def _right_answers(result: dict[str, Any]) -> dict[str, int]:
    return {name: rows["own"]["right"] for name, rows in result["cells"].items()}


def _is_weak(row: ResultRow) -> bool:
    return row.exact_match < _WEAK


def _read(name: str) -> dict[str, Any]:
    """A result of the weights that ship, or one that does not say of which weights it is.

    Raises: ValueError if it is of others.
    """
    found: dict[str, Any] = json.loads((RESULTS / name).read_text())
    if found["about"]["weights"] not in (None, weights_fingerprint(WEIGHTS)):
        raise ValueError(f"{name} is of other weights than those in reader/weights")
    return found


def main() -> None:
    """Write the card."""
    CARD.write_text(card())


if __name__ == "__main__":
    main()
