"""The check of the kernels on families' shapes passes, and says what fails."""

import json
from functools import partial
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

from bench.kernels import families, family_decode, family_prefill
from bench.kernels.family_checks import LIMITS, check_layer
from bench.kernels.family_graph import TINY, check_graph
from bench.kernels.family_layer import Effort, LayerShape
from engine.kernels.decode.workspace import allocate
from engine.kernels.prefill.triton.attend_tokens.launch import attend_tokens_triton
from engine.kernels.prefill.triton.attend_tokens.tiles import AttendTiles
from engine.kernels.prefill.triton.select_tokens.launch import select_tokens_triton
from engine.kernels.prefill.triton.select_tokens.tiles import SelectTiles
from engine.kernels.shared.sizes import has_kernels
from engine.kernels.shared.triton import accumulate_attention_mass
from tests.engine.as_on_gpu import FEW, in_torch

on_cpu = pytest.mark.skipif(torch.cuda.is_available(), reason="interprets kernels on a CPU")


@pytest.fixture
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter takes programs one by one."""
    select = SelectTiles(rows=64, clusters=64, programs=4, warps=4, stages=2)
    attend = AttendTiles(rows=64, tokens=64, splits=3, warps=4, stages=2)
    lookup = partial(select_tokens_triton, denominator_tiles=select, aggregate_tiles=select)
    monkeypatch.setattr(family_prefill, "select_tokens_triton", lookup)
    attention = partial(attend_tokens_triton, tiles=attend)
    monkeypatch.setattr(family_prefill, "attend_tokens_triton", attention)
    monkeypatch.setattr(family_decode, "allocate", partial(allocate, tuning=FEW))
    monkeypatch.setattr(accumulate_attention_mass, "PROGRAMS", 4)


def test_the_table_has_every_family_and_width_that_was_asked_for() -> None:
    shapes = [layer for layers in families.FAMILIES.values() for layer in layers]
    assert all(has_kernels(shape.head_dim) for shape in shapes)
    assert {64, 80, 96, 112, 128, 192, 256} == {shape.head_dim for shape in shapes}
    assert {128, 512, 1024, 4096} <= {shape.window for shape in shapes}
    assert all(shape.num_heads % shape.kv_heads == 0 for shape in shapes)
    for name in ("Llama", "Qwen", "Mistral", "Phi", "Gemma 2", "Gemma 3", "gpt-oss", "SmolLM"):
        assert any(name in family for family in families.FAMILIES)


@on_cpu
@pytest.mark.usefixtures("few_programs")
def test_a_layer_passes_and_a_wrong_kernel_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = LayerShape(2, 1, 80), LayerShape(2, 1, 48, softcap=20.0, window=8)
    efforts = [Effort.tiny()]
    for shape in shapes:
        rows = check_layer(shape, efforts, "cpu")
        assert len(rows) > 3
        assert all(row["passed"] for row in rows), rows
    assert all(0 <= error <= LIMITS[name] for row in rows for name, error in row["errors"].items())

    def off(*arguments: object) -> object:
        state = right(*arguments)
        return state._replace(out=state.out + 0.1)

    right = family_prefill.attend_dense_triton
    monkeypatch.setattr(family_prefill, "attend_dense_triton", off)
    rows = check_layer(shapes[1], efforts, "cpu")
    assert [row["op"].split()[0] for row in rows if not row["passed"]] == ["attend_dense"] * 2
    monkeypatch.setattr(family_prefill, "attend_dense_triton", None)
    rows = check_layer(shapes[1], efforts, "cpu")
    assert [row["raised"][:9] for row in rows if not row["passed"]] == ["TypeError"] * 2


@pytest.mark.parametrize("passes", [True, False])
def test_the_exit_status_and_the_file_say_whether_all_passed(
    passes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"op": "decode", "tokens": 9, "errors": {"out": 0.5}, "raised": None, "passed": passes}
    monkeypatch.setattr(families, "check_layer", lambda *_, **__: [row])
    out = tmp_path / "families.json"
    arguments = ["--tiny", "--out", str(out), "--processes", "1", "--families", "Gemma 3"]
    monkeypatch.setattr("sys.argv", ["families", *arguments])
    with pytest.raises(SystemExit) as ended:
        families.main()
    assert ended.value.code == (0 if passes else 1)
    result = json.loads(out.read_text())
    assert result["num_failed"] == (0 if passes else result["num_checks"])
    assert result["num_checks"] == len(result["rows"]) == 8  # four models of two kinds of layers


@on_cpu
def test_the_graph_is_compared_with_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    in_torch(monkeypatch)
    row = check_graph("cpu", TINY)
    assert row["passed"], row
    assert {"prefill_heads", "heads", "read", "fallbacks"} == set(row["errors"])
    monkeypatch.setattr("engine.decode.graph.decode_attention", lambda inputs, work: work.out)
    assert not check_graph("cpu", TINY)["passed"]
