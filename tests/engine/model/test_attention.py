"""The function that transformers calls."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import AttentionInterface

from common.errors import UnsupportedModel
from engine.model import attention
from engine.model.attention import NAME, AttentionCall, lectern_attention
from tests.engine.naive import normal

LAYER: Any = SimpleNamespace(layer_idx=3, is_causal=True)


class Noting:
    """Notes the call and answers with the queries."""

    def attend(self, call: AttentionCall) -> Tensor:
        self.call = call
        return call.query


def call(module: Any = LAYER, **more: Any) -> tuple[AttentionCall, Tensor]:
    state = Noting()
    arguments = {
        "query": normal(1, 4, 5, 16),
        "key": normal(1, 2, 5, 16),
        "value": normal(1, 2, 5, 16),
        "attention_mask": None,
        "lectern": state,
        **more,
    }
    out, weights = lectern_attention(module, **arguments)
    assert weights is None
    return state.call, out


def test_a_layers_call_is_handed_on_in_full() -> None:
    found, out = call(scaling=0.1, softcap=50, sliding_window=96, dropout=0.0, is_causal=None)
    assert (found.layer, found.scale, found.softcap, found.window) == (3, 0.1, 50.0, 96)
    assert found.query.shape == (4, 5, 16)
    assert found.key.shape == found.value.shape == (2, 5, 16)
    assert_close(out, normal(1, 4, 5, 16).transpose(1, 2))  # (1, tokens, heads, head_dim)
    assert out.is_contiguous()


def test_without_a_scale_it_is_the_usual_one() -> None:
    found, _ = call()
    assert (found.scale, found.softcap, found.window) == (0.25, None, None)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"position_bias": torch.zeros(1), "cu_seq_lens": 1}, "passes cu_seq_lens, position_bias"),
        ({"attention_mask": torch.zeros(1)}, "mask"),
        ({"lectern": None}, "does not pass arguments on"),
        ({"value": normal(1, 2, 5, 8)}, "differ in width"),
        ({"module": SimpleNamespace(layer_idx=0, is_causal=False)}, "not a causal one"),
    ],
)
def test_what_would_change_scores_is_refused(more: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsupportedModel, match=reason):
        call(**more)


def test_unknown_arguments_that_are_not_set_do_no_harm() -> None:
    assert call(cu_seq_lens=None, position_bias=None)[0].layer == 3


def test_sink_logits_are_handed_on() -> None:
    assert call(s_aux=None)[0].sink_logits is None
    found, _ = call(s_aux=torch.arange(4.0))
    assert found.sink_logits is not None
    assert found.sink_logits.tolist() == [0, 1, 2, 3]


def test_registering_makes_it_known_by_name() -> None:
    attention.register()
    assert AttentionInterface()[NAME] is lectern_attention
