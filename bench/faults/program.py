"""The command line that all of these programs share."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import RESULTS
from training.record import write


def program(
    name: str, description: str | None, measure: Callable[[argparse.Namespace], dict[str, Any]]
) -> Callable[[], None]:
    """Return the `main` of a program.

    Args:
        name: of its result file.
        measure: runs it and returns the result; its options are `model` and `smoke`.
    """

    def main() -> None:
        parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
        parser.add_argument("--model", default="", help="a model's folder; the bundled reader")
        parser.add_argument("--smoke", action="store_true", help="few and small, for a look")
        parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
        options = parser.parse_args()
        print(write(name, measure(options), options.out).read_text())

    main.__doc__ = "Run the program, print and write its result."
    return main
