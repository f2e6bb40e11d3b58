"""Which models can be served exactly, told from their configuration before weights are loaded."""

from collections.abc import Iterator
from typing import Any

from common.errors import UnsupportedModel

# RoPE kinds whose angles depend on the position alone. `dynamic` and `longrope` change with the
# current length, so keys stored for a document would be wrong once a question makes it longer.
FIXED_ROPE = frozenset({"default", "linear", "llama3", "yarn", "proportional"})
LAYER_TYPES = frozenset({"full_attention", "sliding_attention"})


def refuse_unsupported(config: Any) -> None:
    """Refuse a model configuration that cannot be served exactly.

    Raises: UnsupportedModel with a sentence that says why.
    """
    for kind in _rope_kinds(config):
        if kind not in FIXED_ROPE:
            raise UnsupportedModel(
                f"The model's RoPE is of kind '{kind}', which changes with the current length: "
                "keys that were stored for a document would no longer fit."
            )
    strange = set(getattr(config, "layer_types", None) or ()) - LAYER_TYPES
    if strange:
        raise UnsupportedModel(f"The model has layers of kind {', '.join(sorted(strange))}.")
    if getattr(config, "alibi", False) or getattr(config, "position_embedding_type", "") == "alibi":
        raise UnsupportedModel("The model adds ALiBi terms to its attention scores.")
    if getattr(config, "num_kv_shared_layers", 0):
        raise UnsupportedModel("The model shares keys and values between layers.")
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedModel("The model is an encoder-decoder, not a causal language model.")


def check_windows(config: Any, windows: list[int | None]) -> None:
    """Refuse a model whose layers announce another kind of attention than they ask for.

    Args:
        windows: per layer the sliding window that reached the attention function.
    Raises: UnsupportedModel.
    """
    for layer, kind in enumerate(getattr(config, "layer_types", None) or ()):
        if (kind == "sliding_attention") != (windows[layer] is not None):
            raise UnsupportedModel(
                f"Layer {layer} is a '{kind}' layer but asks for a window of {windows[layer]}."
            )


def _rope_kinds(config: Any) -> Iterator[str]:
    rope = getattr(config, "rope_parameters", None) or {}
    nested = [part for part in rope.values() if isinstance(part, dict)] or [rope]
    for part in nested:
        yield str(part.get("rope_type", "default"))
