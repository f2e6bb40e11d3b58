"""Training gates as the benchmark does it, with a tiny model on a CPU."""

import json
from pathlib import Path

import pytest
import torch

from bench.accuracy.duo_gates import main


def test_a_step_is_timed(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("the tiny model is for a CPU")
    main(["--shape", "tiny", "--tokens", "1000", "--steps", "1", "--out", str(tmp_path)])
    (length,) = json.loads((tmp_path / "duo_gates.json").read_text())["lengths"]
    assert length["document_tokens"] == 1000
    assert length["seconds_per_step"]["n"] == 1
