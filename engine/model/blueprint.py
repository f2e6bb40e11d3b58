"""What a configuration alone says about a model: its attention, without any weight."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from common.errors import UnsupportedModel
from engine.model.adapters.base import find_adapter
from engine.model.attention import NAME, register
from engine.model.longrope import SHORT, has_longrope, pin_longrope
from engine.model.spec import ModelSpec, probe_shapes
from engine.model.support import check_windows, drop_idle_window, refuse_unsupported


@dataclass(frozen=True)
class Blueprint:
    """A model that was not loaded.

    Attributes:
        spec: its attention layers. Of linear biases (ALiBi) only their presence can be told.
        num_parameters: numbers in all of its weights.
    """

    spec: ModelSpec
    num_parameters: int


def read_blueprint(config: Any) -> Blueprint:
    """Build a model of transformers without memory for its weights, and ask its attention.

    Args:
        config: transformers' configuration; it is not changed.
    Raises: UnsupportedModel with a sentence that says why it cannot be served, or why that cannot
        be told without the weights.
    """
    refuse_unsupported(config)
    config = copy.deepcopy(config)
    config.quantization_config = None  # packed weights need their library, shapes do not
    drop_idle_window(config)
    text = config.get_text_config()
    register()
    try:
        with torch.device("meta"):
            adapter = find_adapter(text)
            model: Any = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
                config, attn_implementation=NAME if adapter is None else "eager"
            )
            if adapter is None:
                model.set_experts_implementation("batched_mm")  # the only one without data
                bound, context_length = model, text.max_position_embeddings
            else:
                bound, context_length = adapter.bind(model), adapter.context_length
            if has_longrope(text):
                bound = pin_longrope(model, text).models[SHORT]
            num_parameters = sum(weight.numel() for weight in model.parameters())
            spec = probe_shapes(bound, text.num_hidden_layers, context_length)
    except (RuntimeError, ValueError, ImportError, NotImplementedError, AttributeError) as error:
        raise UnsupportedModel(
            "Whether the model is served cannot be told without its weights: "
            f"{str(error).strip().partition(chr(10))[0]}"
        ) from error
    if adapter is None:
        check_windows(text, [layer.window for layer in spec.layers])
    return Blueprint(spec, num_parameters)
