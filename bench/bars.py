"""The bars: each figure that an issue asks for, filled in from the result that shows it.

python -m bench.bars          fill in what the results show, then print each bar's verdict

A verdict is `met`, `MISSED`, or `undecided` where less than one question lies between what is
measured and what is required; `told` where nothing is required, `open` where nothing is measured;
and `STALE` where the bundled reader's weights were others, or the result does not say which.
"""

import json
import tomllib
from collections.abc import Mapping
from functools import cache, reduce
from math import prod
from pathlib import Path
from typing import Any

import training
from bench import RESULTS
from bench.random_llama import DRAWN_FOLDERS, SEED
from engine.model.fingerprint import weights_fingerprint
from reader import WEIGHTS
from training.record import NO_MODEL, drawn

BARS = Path(__file__).parent / "bars.toml"
FOLDERS = (RESULTS, training.RESULTS)  # of the results
KEYS = (
    "issue",
    "bar",
    "required",
    "measured",
    "unit",
    "better",
    "questions",
    "one_question",
    "command",
    "result",
    "field",
    "weights",
    "commit",
)
FILLED = ("measured", "one_question", "weights", "commit")
NOT_RECORDED = "not recorded"
_SHOWN_DIGITS = 12  # of a fingerprint
_ROUNDING = 6e-5  # results of the evaluation have four digits


def main() -> None:
    """Rewrite the file from the results and print a line a bar."""
    bars = [filled(bar) for bar in read_bars()]
    head = BARS.read_text().split("[[bar]]")[0]
    BARS.write_text(head + "\n".join(_table(bar) for bar in bars))
    for bar in bars:
        limit = bar.get("required", "no limit")
        print(f"{verdict(bar):9} {bar['bar']}: {bar.get('measured', '-')} ({limit})")


def read_bars() -> list[dict[str, Any]]:
    """All bars, as written."""
    bars: list[dict[str, Any]] = tomllib.loads(BARS.read_text())["bar"]
    return bars


def filled(bar: dict[str, Any]) -> dict[str, Any]:
    """The bar with what its result file shows; without `measured` where that is nothing.

    A run of some contexts or lengths alone has no field for the others: their bars stay open.
    """
    bare = {key: value for key, value in bar.items() if key not in FILLED}
    result = read_result(bar["result"])
    if result is None:
        return bare
    try:
        found = look_up(result, bar["field"])
        parts = [look_up(result, part) for part in bar.get("questions", "").split(" * ") if part]
    except (KeyError, IndexError):
        return bare
    about = result.get("about", result)
    told = {"measured": found, "commit": about["commit"]}
    if about.get("weights", NO_MODEL) != NO_MODEL:
        told["weights"] = weights_told(about["weights"])
    if parts:
        told["one_question"] = round(1 / prod(parts), 6)
    return bare | told


def read_result(name: str) -> dict[str, Any] | None:
    """A result by its file's name, or nothing where there is no such file."""
    for folder in FOLDERS:
        if (folder / name).is_file():
            result: dict[str, Any] = json.loads((folder / name).read_text())
            return result
    return None


def look_up(result: Mapping[str, Any], field: str) -> Any:
    """What stands at a path of keys and places with dots between them; a number is itself.

    Raises: KeyError or IndexError where the result has no such field.
    """
    return int(field) if field.isdigit() else reduce(_step, field.split("."), result)


def weights_told(weights: str | Mapping[str, Any] | None) -> str:
    """Of which weights a result is, in short: a fingerprint's first digits, or what was drawn."""
    if weights is None:
        return NOT_RECORDED
    if isinstance(weights, str) and weights in DRAWN_FOLDERS:
        weights = drawn(DRAWN_FOLDERS[weights], SEED)
    if isinstance(weights, str):
        return weights[:_SHOWN_DIGITS]
    return f"drawn: {weights['shape']}; seeds {', '.join(map(str, weights['seeds']))}"


@cache
def shipped_weights() -> str:
    """The fingerprint of the weights in reader/weights, in short."""
    return weights_fingerprint(WEIGHTS)[:_SHOWN_DIGITS]


def is_stale(told: str) -> bool:
    """Whether what `weights_told` says are neither the reader's weights nor drawn ones."""
    return told != shipped_weights() and not told.startswith("drawn")


def _step(part: Any, key: str) -> Any:
    return part[int(key) if isinstance(part, list) else key]


def is_met(bar: dict[str, Any]) -> bool:
    """Whether what was measured reaches what is required."""
    higher = bar["better"] == "higher"
    return bool(
        bar["measured"] >= bar["required"] if higher else bar["measured"] <= bar["required"]
    )


def verdict(bar: dict[str, Any]) -> str:
    """What a filled bar says: see the module."""
    if "measured" not in bar:
        return "open"
    if is_stale(bar.get("weights", shipped_weights())):
        return "STALE"
    if "required" not in bar:
        return "told"
    apart = abs(bar["measured"] - bar["required"])
    if apart < bar.get("one_question", 0.0) - _ROUNDING:
        return "undecided"
    return "met" if is_met(bar) else "MISSED"


def _table(bar: dict[str, Any]) -> str:
    lines = [f"{key} = {json.dumps(bar[key], ensure_ascii=False)}" for key in KEYS if key in bar]
    return "[[bar]]\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
