"""Results on file are drawn by what they name."""

import sys
from pathlib import Path

import pytest

from bench import RESULTS
from bench.plots import main

PNG = b"\x89PNG"


@pytest.mark.parametrize(
    "name", ["decode_llama3_8b", "decode_llama2_7b", "budgets", "kernels_decode", "kernels_prefill"]
)
def test_a_result_on_file_is_drawn(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / f"{name}.png"
    monkeypatch.setattr(sys, "argv", ["plots", str(RESULTS / f"{name}.json"), str(out)])
    main()
    assert out.read_bytes().startswith(PNG)
