"""The scan of a token's products: its shapes, and that it runs."""

import json
from pathlib import Path

import pytest

from bench.kernels.product_tiles import DRY, main, stages_of, token_ms
from bench.random_llama import SHAPES


def test_a_tokens_products_read_all_weights_but_the_embeddings() -> None:
    stages = stages_of(SHAPES["llama3_8b"])
    read = sum(stage.num_bytes * stage.per_token for stage in stages.values())
    assert read == pytest.approx(16.06e9 - 2 * 128_256 * 4096, rel=1e-3)


def test_a_tokens_time_counts_every_launch() -> None:
    times = {"qkv": 1000.0, "output": 0.0, "gate_up": 0.0, "down": 0.0, "head": 500.0}
    assert token_ms(stages_of(DRY), times) == 2.5


def test_the_scan_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton")
    main(["--dry", "--variants", "2", "--out", str(tmp_path)])
    result = json.loads((tmp_path / "product_tiles.json").read_text())
    assert {row["stage"] for row in result["microseconds"]} == set(stages_of(DRY))
    assert all("p50" in row for row in result["microseconds"])
    assert "products of a token, own" in capsys.readouterr().out
