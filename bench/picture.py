"""What the programs that draw one result share: their command line, and the picture's file."""

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

DOTS_PER_INCH = 110


def draw_result(draw: Callable[[Mapping[str, Any]], Figure], about: str | None) -> None:
    """Parse the command line, read the result, draw it and write the picture.

    Args:
        about: the program, for its help.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("result", type=Path, help="JSON that the benchmark wrote")
    parser.add_argument("out", type=Path, help="the picture to write")
    options = parser.parse_args()
    draw(json.loads(options.result.read_text())).savefig(options.out, dpi=DOTS_PER_INCH)
