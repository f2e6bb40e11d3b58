"""What the prefill benchmark asks of a layer, and what its own check finds."""

from dataclasses import replace

import pytest
import torch

from bench.kernels import prefill
from bench.kernels.layer import MODELS, Shape, draw_layer, shape_of
from bench.kernels.prefill import Asked, ask, check, with_sparsity
from bench.timing import WrongResult
from common.errors import ShapeError


def small(model: str) -> Shape:
    """A model's layer with two KV heads, few and narrow keys; its groups are as they are."""
    shape = shape_of(model, 300)
    group = shape.num_heads // shape.kv_heads
    return replace(shape, num_heads=2 * group, kv_heads=2, head_dim=32, num_anchors=13)


def question(shape: Shape, dtype: torch.dtype = torch.bfloat16) -> Asked:
    """A question of five tokens that leaves out half of the clustered keys."""
    layer = draw_layer(shape, 7, "cpu")
    changed = {name: getattr(layer, name).to(dtype) for name in ("keys", "values", "centroids")}
    return with_sparsity(ask(shape, replace(layer, **changed), tokens=5, seed=8), 50)


def test_models_are_of_every_kind_of_group() -> None:
    groups = {shape_of(model, 1).num_heads // shape_of(model, 1).kv_heads for model in MODELS}
    assert groups == {1, 2, 4, 7}
    assert shape_of("llama2_7b", 9) == Shape(9, num_heads=32, kv_heads=32, head_dim=128)


@pytest.mark.parametrize("model", ["llama2_7b", "gemma2_9b"])
def test_a_question_lies_in_memory_as_the_operations_demand(model: str) -> None:
    shape = small(model)
    asked = ask(shape, draw_layer(shape, 7, "cpu"), tokens=5, seed=8)
    asked.select_inputs().validate()
    selected = asked.choose()
    asked.attend_inputs(selected).validate()
    assert selected.counts.tolist() == [13 + 300] * 2  # it wants everything


def test_the_check_passes_at_every_models_shape(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prefill, "shape_of", lambda model, _: small(model))
    prefill.check_models(list(MODELS), [300], [1, 5], [50], "cpu")
    assert len(capsys.readouterr().out.splitlines()) == 2 * len(MODELS)


@pytest.mark.parametrize("model", ["llama2_7b", "qwen2.5_7b", "gemma2_9b"])
def test_kernels_pass_the_check(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    from engine.kernels.prefill.triton.attend_tokens.launch import attend_tokens_triton
    from engine.kernels.prefill.triton.select_tokens.launch import select_tokens_triton

    if torch.cuda.is_available():
        pytest.skip("the interpreter's run; compiled, `bench.kernels.prefill --check` runs them")
    monkeypatch.setattr(prefill, "select_tokens", select_tokens_triton)
    monkeypatch.setattr(prefill, "attend_tokens", attend_tokens_triton)
    errors = check(question(small(model), torch.float32))
    assert max(errors.values()) < 1e-3


@pytest.mark.parametrize("model", ["llama2_7b", "llama3_8b"])
def test_strided_rows_are_refused_and_give_no_figure(model: str) -> None:
    asked = question(small(model))
    by_token = asked.rows.transpose(0, 1).contiguous()
    with pytest.raises(ShapeError, match="not contiguous"):
        check(replace(asked, rows=by_token.transpose(0, 1)))


def test_a_wrong_result_gives_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = question(small("llama2_7b"))
    wrong = asked.answer()
    monkeypatch.setattr(prefill, "attend_tokens", lambda _: wrong._replace(lse=wrong.lse + 1.0))
    with pytest.raises(WrongResult, match="A kernel is wrong"):
        check(asked)
