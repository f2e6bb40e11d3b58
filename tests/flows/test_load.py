"""The load program, beside a running server."""

import json
import sys
from pathlib import Path

import pytest

from bench.serving.load.__main__ import main
from tests.flows.conftest import LecternServer
from tests.models import prose


def test_it_measures_a_server_and_says_what_was_answered(
    shared_server: LecternServer, tiny_model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "book.txt").write_text(prose(5000))
    arguments = ["load", "small", "--text", str(tmp_path / "book.txt"), "--out", str(tmp_path)]
    server = ["--model", tiny_model, "--url", shared_server.url, "--key", shared_server.key]
    monkeypatch.setattr(sys, "argv", [*arguments, *server, "--stop-at-eos"])
    main()
    result = json.loads((tmp_path / "load.json").read_text())
    rows = result["rows"]
    assert [row["budget"] for row in rows] == ["balanced", "exact"]
    assert all(row["errors"] == {} and row["requests"] == 4 for row in rows)
    assert rows[1]["loaded"] > rows[0]["loaded"] > 0
    assert all(row["tokens_per_s"] > 0 and row["cache_hits"] == 1.0 for row in rows)
    (beside,) = result["of_exact"]
    assert beside["tokens_per_s"] == rows[0]["tokens_per_s"] / rows[1]["tokens_per_s"]
    assert [one["total"] > 0 for one in rows[0]["reading_ms"]] == [True, True]


def test_mixtures_ask_about_the_same_documents(
    shared_server: LecternServer, tiny_model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "book.txt").write_text(prose(5000))
    arguments = ["load", "small-mixtures", "--text", str(tmp_path / "book.txt")]
    server = ["--model", tiny_model, "--url", shared_server.url, "--key", shared_server.key]
    monkeypatch.setattr(sys, "argv", [*arguments, "--out", str(tmp_path), *server])
    main()
    result = json.loads((tmp_path / "load.json").read_text())
    rows = result["rows"]
    assert [row["budget"] for row in rows] == ["balanced"] * 2 + ["exact"] * 2
    assert all(row["errors"] == {} for row in rows)
    assert len({json.dumps(row["reading_ms"]) for row in rows}) == 1  # they were read once
    assert result["least_of_exact"]["any"] == min(
        row["tokens_per_s"] / exact["tokens_per_s"]
        for row, exact in zip(rows[:2], rows[2:], strict=True)
    )
