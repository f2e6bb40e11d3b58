"""`lectern heads`, as far as it needs no large model."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.model.head_plan import HeadPlan, read_plan, write_plan
from precompute.heads.file import read_pattern, write_pattern
from reader import WEIGHTS

CONFIG = json.loads((WEIGHTS / "config.json").read_text())
LAYERS, HEADS = CONFIG["num_hidden_layers"], CONFIG["num_key_value_heads"]
ALL_HEADS = ((True,) * HEADS,) * LAYERS
Run = Callable[..., tuple[int, str, str]]
PLAN = HeadPlan(
    "duo", ((True, False, False), (False, False, True)), scores=((1.0, 0.0, 0.35), (0.04, 0.6, 0.7))
)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    write_plan(PLAN, tmp_path / "plan.json")
    return tmp_path / "plan.json"


def test_a_plan_is_shown_layer_by_head_with_stars(lectern: Run, plan: Path) -> None:
    code, out, _ = lectern("heads", "show", str(plan))
    assert code == 0
    title, *rows = out.splitlines()
    assert title.startswith("duo: 2 of 6 KV heads are retrieval heads")
    assert [row.rstrip() for row in rows] == ["  0  9*0 3", "  1  0 6 7*"]


def test_a_plan_without_scores_shows_what_was_chosen(lectern: Run, tmp_path: Path) -> None:
    write_plan(HeadPlan("all", ((True, False),)), tmp_path / "plan.json")
    assert "9*0" in lectern("heads", "show", str(tmp_path / "plan.json"))[1]


def test_a_plan_is_drawn(lectern: Run, plan: Path, tmp_path: Path) -> None:
    assert lectern("heads", "show", str(plan), "--png", str(tmp_path / "new" / "heat.png"))[0] == 0
    assert (tmp_path / "new" / "heat.png").read_bytes().startswith(b"\x89PNG")


def test_drawing_says_what_it_needs(
    lectern: Run, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, _, err = lectern("heads", "show", str(plan), "--png", str(tmp_path / "heat.png"))
    assert code == 1
    assert "lectern[dev]" in err


def test_a_plan_goes_out_as_a_pattern(lectern: Run, plan: Path, tmp_path: Path) -> None:
    assert lectern("heads", "export", str(plan), "--out", str(tmp_path / "out"))[0] == 0
    assert read_pattern(tmp_path / "out").gates == PLAN.scores


def test_a_pattern_comes_in_for_the_bundled_reader(lectern: Run, tmp_path: Path) -> None:
    gates = tuple((layer / LAYERS, *(0.0,) * (HEADS - 1)) for layer in range(LAYERS))
    write_pattern(HeadPlan("duo", ALL_HEADS, 32, 128, scores=gates), tmp_path / "in")
    out, ratio = tmp_path / "plan.json", 2 / (LAYERS * HEADS)
    arguments = (str(tmp_path / "in"), "--out", str(out), "--ratio", str(ratio))
    code, shown, _ = lectern("heads", "import", *arguments)
    plan = read_plan(out)
    assert code == 0
    assert f"2 of {LAYERS * HEADS} KV heads" in shown
    assert (plan.method, plan.num_sinks, plan.window, plan.scores) == ("file", 32, 128, gates)
    assert [layer for layer, heads in enumerate(plan.retrieval) if heads[0]] == [
        LAYERS - 2,
        LAYERS - 1,
    ]
    assert plan.model


def test_a_pattern_for_another_model_is_refused(lectern: Run, tmp_path: Path) -> None:
    write_pattern(HeadPlan("duo", ((True,),), scores=((1.0,),)), tmp_path / "in")
    code, _, err = lectern("heads", "import", str(tmp_path / "in"), "--out", str(tmp_path / "no"))
    assert code == 1
    assert f"1 layers of 1 heads; the model has {LAYERS} layers of {HEADS} KV heads" in err
    assert not (tmp_path / "no").exists()


def test_gates_are_asked_for_where_a_plan_has_none(lectern: Run, tmp_path: Path) -> None:
    write_plan(HeadPlan("all", ALL_HEADS), tmp_path / "all.json")
    code, _, err = lectern(
        "heads", "zigzag", "--gates", str(tmp_path / "all.json"), "--out", str(tmp_path / "no")
    )
    assert code == 1
    assert "has no gates" in err


def test_whole_layers_are_chosen_from_a_plans_gates(lectern: Run, tmp_path: Path) -> None:
    gates = tuple((layer / LAYERS, *(0.0,) * (HEADS - 1)) for layer in range(LAYERS))
    write_plan(HeadPlan("duo", ALL_HEADS, scores=gates), tmp_path / "duo.json")
    out = tmp_path / "zigzag.json"
    lectern("heads", "zigzag", "--gates", str(tmp_path / "duo.json"), "--out", str(out))
    half = LAYERS // 2
    assert read_plan(out).retrieval[:half] == ((False,) * HEADS,) * half
    assert read_plan(out).retrieval[half:] == ((True,) * HEADS,) * (LAYERS - half)
