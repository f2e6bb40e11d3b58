"""Every bar says what its result file shows, its command runs, its verdict follows from both."""

import importlib
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import training
from bench import RESULTS, bars
from bench.bars import FILLED, KEYS, filled, read_bars, shipped_weights, verdict, weights_told

WITHOUT_WEIGHTS = {
    "marked_quotes.json",
    "mutations.json",
    "structure.json",
    "wheel.json",
}  # of code
# Measured before results said of which weights they are: to be measured again.
NOT_RECORDED = {"reader_full_attention.json"}


def test_every_bar_has_its_keys_and_says_what_its_result_file_shows() -> None:
    for bar in read_bars():
        assert set(KEYS) - set(bar) <= {*FILLED, "required", "questions"}, bar["bar"]
        assert bar["better"] in ("higher", "lower")
        assert bar == filled(bar)
        assert ("one_question" in bar) == ("questions" in bar and "measured" in bar), bar["bar"]


def test_every_result_says_of_which_weights_it_is() -> None:
    files = [*RESULTS.glob("*.json"), *training.RESULTS.glob("*.json")]
    assert len(files) > 10
    for file in files:
        result = json.loads(file.read_text())
        about = result.get("about", result)
        if file.name not in WITHOUT_WEIGHTS:
            told = weights_told(about["weights"])
            assert told.startswith("drawn: ") or len(told) == 12 or file.name in NOT_RECORDED
            assert told != bars.NOT_RECORDED or file.name in NOT_RECORDED, file.name


def test_every_command_is_a_program_that_explains_its_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("triton")
    for command in sorted({bar["command"] for bar in read_bars()}):
        python, flag, name, *options = shlex.split(command)
        assert (python, flag) == ("python", "-m")
        module = importlib.import_module(name)
        if hasattr(module, "__path__"):  # a package that is a program
            module = importlib.import_module(f"{name}.__main__")
        main: Callable[[], None] = module.main
        monkeypatch.setattr("sys.argv", [name, "--help"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
        explained = capsys.readouterr().out
        assert all(one in explained for one in options if one.startswith("--")), command


@pytest.fixture
def result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A result file in the folder that bars are filled in from."""
    file = tmp_path / "speed.json"
    found = {"commit": "0123", "speed": {"1024": {"90": 5.5}}, "runs": [1.0], "asked": 300}
    file.write_text(json.dumps(found | {"weights": "f" * 64, "full": 0.5}))
    monkeypatch.setattr(bars, "FOLDERS", (tmp_path / "none", tmp_path))
    return file


@pytest.mark.parametrize(
    ("field", "measured"),
    [("speed.1024.90", 5.5), ("speed.4096.90", None), ("speed.1024.95", None), ("runs.1", None)],
)
@pytest.mark.usefixtures("result")
def test_a_bar_whose_field_a_result_lacks_is_open(field: str, measured: float | None) -> None:
    bar = {"bar": "speed", "result": "speed.json", "field": field, "measured": 5.0, "commit": "9"}
    found = filled(bar)
    assert found.get("measured") == measured
    assert ("commit" in found) == (measured is not None)
    assert found.get("weights") == (None if measured is None else "f" * 12)
    if measured is None:
        assert verdict(found) == "open"


@pytest.mark.parametrize(
    ("questions", "worth"), [("asked", 1 / 300), ("asked * full", 1 / 150), ("1", 1.0)]
)
@pytest.mark.usefixtures("result")
def test_a_bar_knows_what_one_question_changes(questions: str, worth: float) -> None:
    bar = {"result": "speed.json", "field": "speed.1024.90", "questions": questions}
    assert filled(bar)["one_question"] == pytest.approx(worth, abs=1e-6)


@pytest.mark.parametrize(
    ("measured", "better", "expected"),
    [
        (0.97, "higher", "undecided"), (0.9730, "higher", "undecided"),
        (0.9667, "higher", "MISSED"), (0.9734, "higher", "met"), (0.9734, "lower", "MISSED"),
        (0.9690, "higher", "undecided"), (0.9666, "lower", "met"),
    ],
)  # fmt: skip
def test_less_than_one_question_decides_nothing(
    measured: float, better: str, expected: str
) -> None:
    bar = {"measured": measured, "required": 0.97, "better": better, "one_question": 0.003333}
    bar |= {"weights": shipped_weights()}
    assert verdict(bar) == expected
    assert verdict({**bar, "required": None} | {"required": 0.5, "better": "higher"}) == "met"
    del bar["one_question"]
    assert verdict(bar) in ("met", "MISSED")


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (shipped_weights() + "0" * 52, "met"),
        ("0" * 64, "STALE"),
        (None, "STALE"),
        ({"shape": "llama3_8b", "seeds": [0]}, "met"),
    ],
)
def test_a_figure_of_other_weights_is_stale(weights: Any, expected: str) -> None:
    told = weights_told(weights)
    bar = {"measured": 2.0, "required": 1.0, "better": "higher", "weights": told}
    assert verdict(bar) == expected


def test_what_is_only_reported_is_told() -> None:
    assert verdict({"measured": 1.0, "better": "higher"}) == "told"
