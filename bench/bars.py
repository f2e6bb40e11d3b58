"""The bars: each figure that an issue asks for, filled in from the result that shows it.

python -m bench.bars          fill in `measured` and `commit` from the results, then print
"""

import json
import tomllib
from functools import reduce
from pathlib import Path
from typing import Any

import training
from bench import RESULTS

BARS = Path(__file__).parent / "bars.toml"
FOLDERS = (RESULTS, training.RESULTS)  # of the results
KEYS = (
    "issue",
    "bar",
    "required",
    "measured",
    "unit",
    "better",
    "command",
    "result",
    "field",
    "commit",
)


def main() -> None:
    """Rewrite the file from the results and print a line a bar."""
    bars = [filled(bar) for bar in read_bars()]
    head = BARS.read_text().split("[[bar]]")[0]
    BARS.write_text(head + "\n".join(_table(bar) for bar in bars))
    for bar in bars:
        limit = bar.get("required", "no limit")
        print(f"{_verdict(bar):8} {bar['bar']}: {bar.get('measured', '-')} ({limit})")


def read_bars() -> list[dict[str, Any]]:
    """All bars, as written."""
    bars: list[dict[str, Any]] = tomllib.loads(BARS.read_text())["bar"]
    return bars


def filled(bar: dict[str, Any]) -> dict[str, Any]:
    """The bar with what its result file shows; without `measured` where that is nothing.

    A run of some contexts or lengths alone has no field for the others: their bars stay open.
    """
    bare = {key: value for key, value in bar.items() if key not in ("measured", "commit")}
    path = next((one for one in _places(bar["result"]) if one.is_file()), None)
    if path is None:
        return bare
    result = json.loads(path.read_text())
    try:
        found = reduce(_step, bar["field"].split("."), result)
    except (KeyError, IndexError):
        return bare
    return {**bare, "measured": found, "commit": result.get("about", result)["commit"]}


def _places(name: str) -> tuple[Path, ...]:
    return tuple(folder / name for folder in FOLDERS)


def _step(part: Any, key: str) -> Any:
    return part[int(key) if isinstance(part, list) else key]


def is_met(bar: dict[str, Any]) -> bool:
    """Whether what was measured reaches what is required."""
    higher = bar["better"] == "higher"
    return bool(
        bar["measured"] >= bar["required"] if higher else bar["measured"] <= bar["required"]
    )


def _verdict(bar: dict[str, Any]) -> str:
    if "measured" not in bar:
        return "open"
    if "required" not in bar:
        return "told"
    return "met" if is_met(bar) else "MISSED"


def _table(bar: dict[str, Any]) -> str:
    lines = [f"{key} = {json.dumps(bar[key], ensure_ascii=False)}" for key in KEYS if key in bar]
    return "[[bar]]\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
