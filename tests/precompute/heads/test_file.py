"""DuoAttention's pattern files."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from common.errors import HeadPlanRejected, InvalidInput
from engine.model.head_plan import HeadPlan
from engine.model.loader import LoadedModel
from precompute.heads.base import make_plan
from precompute.heads.file import FileConfig, PatternFile, read_pattern, write_pattern
from tests.models import FAMILIES, loaded, unheard

GATES = ((0.9375, 0.0), (1.0, 1e-5))


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A pattern as training leaves it, with one gate just below 0."""
    lines = "9.375e-01\t-1.40380859375e-03\n1.000000000000000000e+00\t1e-05\n"
    (tmp_path / "full_attention_heads.tsv").write_text(lines)
    (tmp_path / "config.json").write_text('{"sink_size": 128, "recent_size": 256, "lr": 0.02}')
    return tmp_path


def test_gates_are_read_and_clipped(folder: Path) -> None:
    pattern = read_pattern(folder)
    assert pattern.gates == GATES
    assert (pattern.num_sinks, pattern.window) == (128, 256)


def test_a_pattern_becomes_a_plan(model: LoadedModel, folder: Path) -> None:
    method = PatternFile(FileConfig(folder))
    plan = make_plan("file", method, method.measure(model, unheard), 0.5, model=model)
    assert plan.retrieval == ((True, False), (True, False))
    assert plan.settings["pattern"] == folder.name


def test_what_is_written_is_read_to_the_last_bit(tmp_path: Path) -> None:
    gates = ((1 / 3, 0.1, 1.0), (0.0, 2**-40, 0.7))
    plan = HeadPlan("duo", ((True,) * 3,) * 2, 32, 128, scores=gates)
    write_pattern(plan, tmp_path / "new")
    pattern = read_pattern(tmp_path / "new")
    assert (pattern.gates, pattern.num_sinks, pattern.window) == (gates, 32, 128)
    first = (tmp_path / "new" / "full_attention_heads.tsv").read_text().splitlines()[0]
    assert first.split("\t")[2] == "1.000000000000000000e+00"


def test_scores_that_are_no_gates_are_written_as_what_they_chose(tmp_path: Path) -> None:
    plan = HeadPlan("razor", ((True, False),), scores=((0.2, 0.1),))
    write_pattern(plan, tmp_path)
    assert read_pattern(tmp_path).gates == ((1.0, 0.0),)


def spoil_gates(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "full_attention_heads.tsv").write_text(text)


def spoil_config(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "config.json").write_text(text)


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_gates(""),
        spoil_gates("0.5\t0.5\n0.5\n"),
        spoil_gates("0.5\tnan\n"),
        spoil_gates("0.5 0.5\n"),
        spoil_gates("0.5\thead\n"),
        spoil_config("{}"),
        spoil_config("[]"),
        spoil_config("{"),
        lambda folder: (folder / "config.json").unlink(),
        lambda folder: (folder / "full_attention_heads.tsv").unlink(),
    ],
)
def test_a_damaged_pattern_is_refused(folder: Path, spoil: Callable[[Path], object]) -> None:
    spoil(folder)
    with pytest.raises(HeadPlanRejected):
        read_pattern(folder)


@pytest.mark.parametrize(
    ("lines", "shape"), [("1\t0\n", "1 layers of 2"), ("1\t0\t1\n1\t0\t1\n", "2 layers of 3")]
)
def test_a_pattern_for_another_model_is_refused(
    model: LoadedModel, folder: Path, lines: str, shape: str
) -> None:
    (folder / "full_attention_heads.tsv").write_text(lines)
    with pytest.raises(HeadPlanRejected, match=f"{shape}.*the model has 2 layers of 2"):
        PatternFile(FileConfig(folder)).measure(model, unheard)


def test_the_settings_are_json(model: LoadedModel, folder: Path) -> None:
    settings = PatternFile(FileConfig(folder)).measure(model, unheard).settings
    assert json.loads(json.dumps(settings)) == settings


def test_a_window_that_grows_with_the_document_is_not_exported(tmp_path: Path) -> None:
    plan = HeadPlan("razor", ((True, False),), window=4000, window_share=0.2)
    with pytest.raises(InvalidInput, match="window that depends"):
        write_pattern(plan, tmp_path / "new")
    assert not (tmp_path / "new").exists()
