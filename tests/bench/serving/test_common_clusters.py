"""What several askers of a document read in common is counted in tokens."""

import json
import sys
from pathlib import Path

import pytest
import torch

from bench.serving import common_clusters


def test_shares_are_of_tokens_over_all_heads() -> None:
    sizes = torch.tensor([1, 2, 3, 4])
    first = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 0]]).bool()  # 3 and 5 tokens, 2 in common
    second = torch.tensor([[0, 0, 0, 1], [0, 0, 0, 0]]).bool()
    found = common_clusters.shares([(first, sizes), (second, sizes)])
    assert found["alone"] == pytest.approx((3 + 5 + 4) / 2 / 20)
    assert found["in_common"] == pytest.approx((2 / 7 + 2 / 5) / 2)
    assert found["union"]["2"] == pytest.approx((6 + 4) / 20)


def test_a_small_run_reports_the_reader_and_drawn_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = " ".join(f"Room {number} holds {number * 7} maps." for number in range(600))
    (tmp_path / "book.txt").write_text(text)
    given = ["--text", str(tmp_path / "book.txt"), "--tokens", "1500", "--drawn-keys", "800"]
    monkeypatch.setattr(sys, "argv", ["common_clusters", *given, "--out", str(tmp_path)])
    common_clusters.main()
    result = json.loads((tmp_path / "common_clusters.json").read_text())
    for part in (result["reader"], result["drawn"]):
        union = part["union"]
        assert 0 < part["alone"] < union["2"] < union["4"] < union["16"] <= 1
        assert 0 < part["in_common"] <= 1
    assert result["drawn"]["alone"] == pytest.approx(0.15, abs=0.02)
