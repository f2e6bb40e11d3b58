"""Which models can be served exactly, told from their configuration before weights are loaded."""

from collections.abc import Iterator
from typing import Any

from common.errors import UnsupportedModel
from engine.model.adapters.base import find_adapter
from engine.model.longrope import has_longrope

# RoPE kinds whose angles depend on the position alone. `dynamic` changes with the current length,
# so keys stored for a document would be wrong once a question makes it longer. So does `longrope`,
# which `engine.model.longrope` pins for a document where a model has one for all layers.
FIXED_ROPE = frozenset({"default", "linear", "llama3", "yarn", "proportional"})
LAYER_TYPES = frozenset({"full_attention", "sliding_attention"})


def refuse_unsupported(config: Any) -> None:
    """Refuse a model configuration that cannot be served exactly.

    Raises: UnsupportedModel with a sentence that says why.
    """
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedModel("The model is an encoder-decoder, not a causal language model.")
    text = config.get_text_config()
    if find_adapter(text) is not None:
        return  # it has refused what it cannot serve
    for kind in _rope_kinds(text):
        if kind not in FIXED_ROPE and not has_longrope(text):
            raise UnsupportedModel(
                f"The model's RoPE is of kind '{kind}', which changes with the current length: "
                "keys that were stored for a document would no longer fit."
            )
    strange = set(getattr(text, "layer_types", None) or ()) - LAYER_TYPES
    if strange:
        raise UnsupportedModel(f"The model has layers of kind {', '.join(sorted(strange))}.")
    if getattr(text, "alibi", False):
        raise UnsupportedModel("The model adds ALiBi terms to its attention scores by itself.")
    if getattr(text, "num_kv_shared_layers", 0):
        raise UnsupportedModel("The model shares keys and values between layers.")
    if not getattr(text, "max_position_embeddings", None):
        raise UnsupportedModel("The model's configuration does not say how long its context is.")


def drop_idle_window(config: Any) -> None:
    """Forget a sliding window that is no shorter than the context: it hides nothing (Phi-3.5).

    Args:
        config: of a model that is about to be made, or was; it is changed.
    """
    text = config.get_text_config()
    window = getattr(text, "sliding_window", None)
    context_length = getattr(text, "max_position_embeddings", None)
    is_idle = window and context_length and window >= context_length
    if is_idle and not getattr(text, "layer_types", None):
        text.sliding_window = None


def check_windows(config: Any, windows: list[int | None]) -> None:
    """Refuse a model whose layers announce another kind of attention than they ask for.

    Args:
        windows: per layer the sliding window that reached the attention function.
    Raises: UnsupportedModel.
    """
    kinds = getattr(config, "layer_types", None)
    if kinds is None:  # then one window holds for all layers, or none
        sliding = getattr(config, "sliding_window", None) is not None
        kinds = ["sliding_attention" if sliding else "full_attention"] * len(windows)
    for layer, (kind, window) in enumerate(zip(kinds, windows, strict=True)):
        if (kind == "sliding_attention") != (window is not None):
            raise UnsupportedModel(
                f"Layer {layer} is a '{kind}' layer but asks for a window of {window}."
            )


def _rope_kinds(config: Any) -> Iterator[str]:
    rope = getattr(config, "rope_parameters", None) or {}
    nested = [part for part in rope.values() if isinstance(part, dict)] or [rope]
    for part in nested:
        yield str(part.get("rope_type", "default"))
