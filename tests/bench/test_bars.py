"""Every bar says what its result file shows, and its command runs."""

import importlib
import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import bars
from bench.bars import KEYS, filled, read_bars


def test_every_bar_has_its_keys_and_says_what_its_result_file_shows() -> None:
    for bar in read_bars():
        assert set(KEYS) - set(bar) <= {"measured", "commit", "required"}, bar["bar"]
        assert bar["better"] in ("higher", "lower")
        assert bar == filled(bar)


def test_every_command_is_a_program_that_explains_its_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("triton")
    for command in sorted({bar["command"] for bar in read_bars()}):
        python, flag, name, *options = shlex.split(command)
        assert (python, flag) == ("python", "-m")
        main: Callable[[], None] = importlib.import_module(name).main
        monkeypatch.setattr("sys.argv", [name, "--help"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
        explained = capsys.readouterr().out
        assert all(one in explained for one in options if one.startswith("--")), command


@pytest.mark.parametrize(
    ("field", "measured"),
    [("speed.1024.90", 5.5), ("speed.4096.90", None), ("speed.1024.95", None), ("runs.1", None)],
)
def test_a_bar_whose_field_a_result_lacks_is_open(
    field: str, measured: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = {"commit": "0123", "speed": {"1024": {"90": 5.5}}, "runs": [1.0]}
    (tmp_path / "speed.json").write_text(json.dumps(result))
    monkeypatch.setattr(bars, "FOLDERS", (tmp_path / "none", tmp_path))
    bar = {"bar": "speed", "result": "speed.json", "field": field, "measured": 5.0, "commit": "9"}
    found = filled(bar)
    assert found.get("measured") == measured
    assert ("commit" in found) == (measured is not None)
