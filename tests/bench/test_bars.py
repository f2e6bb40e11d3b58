"""Every bar says what its result file shows, and nothing else."""

import json
from pathlib import Path

import pytest

from bench import bars
from bench.bars import KEYS, filled, read_bars

BARS = read_bars()


@pytest.mark.parametrize("bar", BARS, ids=[bar["bar"][:60] for bar in BARS])
def test_a_bar_says_what_its_result_file_shows(bar):
    assert bar == filled(bar)


@pytest.mark.parametrize("bar", BARS, ids=[bar["bar"][:60] for bar in BARS])
def test_a_bar_has_every_key(bar):
    assert set(KEYS) - set(bar) <= {"measured", "commit", "required"}
    assert bar["better"] in ("higher", "lower")


@pytest.mark.parametrize(
    ("field", "measured"),
    [("speed.1024.90", 5.5), ("speed.4096.90", None), ("speed.1024.95", None), ("runs.1", None)],
)
def test_a_bar_whose_field_a_result_lacks_is_open(
    field: str, measured: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = {"commit": "0123", "speed": {"1024": {"90": 5.5}}, "runs": [1.0]}
    (tmp_path / "speed.json").write_text(json.dumps(result))
    monkeypatch.setattr(bars, "RESULTS", tmp_path)
    bar = {"bar": "speed", "result": "speed.json", "field": field, "measured": 5.0, "commit": "9"}
    found = filled(bar)
    assert found.get("measured") == measured
    assert ("commit" in found) == (measured is not None)
