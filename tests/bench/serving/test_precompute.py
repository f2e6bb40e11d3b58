"""Reading a document as the benchmark does it, with a tiny model on a CPU."""

import json
from pathlib import Path

import pytest
import torch

from bench.serving.precompute import PHASES, _joined, main, publish


def test_all_of_it_runs_and_leaves_what_the_bars_ask_for(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("the tiny model is for a CPU")
    main(["--dry", "--tokens", "1200", "--plans", "quarter", "--repeats", "0",
          "--disk", str(tmp_path), "--out", str(tmp_path)])  # fmt: skip
    result = json.loads((tmp_path / "precompute.json").read_text())
    found = result["plans"]["quarter"]
    assert set(found["seconds"]) == {*PHASES, "total"}
    assert found["seconds"]["total"]["n"] == 1
    assert found["artifact_gib"] > 0
    assert {"gib_per_second", "disk_gib_per_second"} < set(result["publishing"]["quarter"])
    assert result["correctness"]["quarter"]["logits_error"] < 1
    assert result["host"]["memory"]["first_written"] > 0


def test_a_plain_file_is_the_beginning_of_all_files(tmp_path: Path) -> None:
    files = [("a", memoryview(b"lamps and")), ("b", memoryview(b" maps")), ("c", memoryview(b"."))]
    assert bytes(_joined(files, 12)) == b"lamps and ma"
    assert publish(files, tmp_path, 1 << 20).keys() == {
        "seconds", "gib_per_second", "disk_gib_per_second",
    }  # fmt: skip
    assert not list(tmp_path.iterdir())
