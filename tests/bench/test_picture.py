"""Results on file are drawn by the programs that are named for them."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from bench import decode_plot
from bench.heads import plot as heads_plot
from bench.kernels import decode_plot as kernels_decode_plot
from bench.kernels import prefill_plot
from bench.picture import draw_result
from bench.record import RESULTS

PNG = b"\x89PNG"


@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("decode_llama3_8b", decode_plot.draw),
        ("decode_llama2_7b", decode_plot.draw),
        ("heads", heads_plot.draw),
        ("kernels_decode", kernels_decode_plot.draw),
        ("kernels_prefill", prefill_plot.draw),
    ],
)
def test_a_result_on_file_is_drawn(
    name: str,
    draw: Callable[[Mapping[str, Any]], Figure],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / f"{name}.png"
    monkeypatch.setattr(sys, "argv", ["plot", str(RESULTS / f"{name}.json"), str(out)])
    draw_result(draw, "Draw it.")
    assert out.read_bytes().startswith(PNG)
