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
