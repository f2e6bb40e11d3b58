"""What a configuration says without weights is what the loaded model says."""

from dataclasses import replace

import pytest
from transformers import LlamaConfig, OPTConfig

from common.errors import UnsupportedModel
from engine.model.blueprint import read_blueprint
from tests.models import ALIBI, FAMILIES, FURTHER, loaded, rope, sizes

EVERY = {**FAMILIES, **FURTHER, **ALIBI}


@pytest.mark.parametrize("family", [name for name in EVERY if name != "opt"])
def test_a_blueprint_has_the_attention_and_the_size_of_the_model(family: str) -> None:
    blueprint, model = read_blueprint(EVERY[family]), loaded(EVERY[family])
    without_biases = [replace(layer, alibi=None) for layer in model.spec.layers]
    assert [replace(layer, alibi=None) for layer in blueprint.spec.layers] == without_biases
    assert blueprint.spec.context_length == model.spec.context_length
    assert [layer.alibi is None for layer in blueprint.spec.layers] == [
        layer.alibi is None for layer in model.spec.layers
    ]
    assert blueprint.num_parameters == sum(weight.numel() for weight in model.model.parameters())


def test_what_is_refused_when_it_is_loaded_is_refused_here() -> None:
    dynamic = LlamaConfig(**sizes(rope_parameters=rope("dynamic", factor=2.0)))
    with pytest.raises(UnsupportedModel, match="dynamic"):
        read_blueprint(dynamic)


def test_what_cannot_be_told_is_said_so() -> None:
    config = FURTHER["opt"]
    assert isinstance(config, OPTConfig)
    with pytest.raises(UnsupportedModel, match="cannot be told without its weights"):
        read_blueprint(config)
