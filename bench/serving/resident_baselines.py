"""A first token without this project's lookup: full attention over what is resident anyway.

Two ways, over the keys and values of the same synthetic document in all heads: this project's
engine at `exact`, and transformers' own forward pass over a warm prefix cache. Random layers
amplify rounding, so the two are held to `LIMIT`: a wrong mask, order or position lies far beyond.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from bench.serving.synthetic_question import ask, question_ids
from bench.timing import WrongResult, seconds_of
from engine.attend.evidence import AttentionMass
from engine.attend.question import open_question
from engine.document.budget import EXACT
from engine.document.cache import DocumentCache
from engine.model.attention import NAME
from engine.model.loader import LoadedModel
from training.record import percentiles

REPEATS, WARM = 20, 4
LIMIT = 0.5  # of logits, relative in norm, in bf16


def first_token_baselines(model: LoadedModel, document: DocumentCache) -> dict[str, Any]:
    """Milliseconds to the first token of a question, from its ids on, both ways.

    Args:
        model: with all heads retrieval heads; its attention is exchanged meanwhile.
        document: resident on the model's device.
    Raises: WrongResult if the two give logits that differ by more than `LIMIT`.
    """
    ours = _exact_logits(model, document)
    resident = _milliseconds(lambda: _exact_logits(model, document).argmax().item())
    module: Any = model.model
    module.set_attn_implementation("sdpa")
    try:
        warm = _warm_prefix(model, document)
        theirs = _prefix_logits(model, warm)
        prefix = _milliseconds(lambda: _prefix_logits(model, warm).argmax().item())
    finally:
        module.set_attn_implementation(NAME)
    error = float((ours.float() - theirs.float()).norm() / theirs.float().norm())
    if not error < LIMIT:
        raise WrongResult(f"Logits over a warm prefix differ by {error:.2e}: no figure is given.")
    return {
        "full_attention_resident_ms": percentiles(resident),
        "warm_prefix_ms": percentiles(prefix),
        "logit_error": error,
    }


def add_ratios(plans: dict[str, dict[str, Any]], context: str) -> None:
    """Hold every plan's first token at a context against what was measured with all heads."""
    baselines = plans.get("all", {}).get(context, {}).get("first_token_baselines")
    if baselines is None:
        return
    for found in plans.values():
        if "first_token_ms" in found.get(context, {}):
            ours = found[context]["first_token_ms"]["p50"]
            for name in ("full_attention_resident", "warm_prefix"):
                ratio = baselines[f"{name}_ms"]["p50"] / ours
                found.setdefault("ratios", {})[f"{name}_to_first_token"] = ratio


def _exact_logits(model: LoadedModel, document: DocumentCache) -> Tensor:
    mass = AttentionMass(document, model.device)
    return ask(model, open_question(document, EXACT, mass))


def _warm_prefix(model: LoadedModel, document: DocumentCache) -> DynamicCache:
    """Transformers' cache that holds the document's keys, whose order no head can tell."""
    module: Any = model.model
    cache = DynamicCache(config=module.config)
    for index, layer in enumerate(document.layers):
        cache.update(layer.keys[None], layer.values[None], index)
    return cache


@torch.inference_mode()
def _prefix_logits(model: LoadedModel, warm: DynamicCache) -> Tensor:
    """Logits (vocabulary,) after the question; the cache is left as it was."""
    ids, length = question_ids(model), warm.get_seq_length()
    module: Any = model.model
    positions = torch.arange(length, length + len(ids), device=ids.device)[None]
    output = module(
        input_ids=ids[None],
        past_key_values=warm,
        position_ids=positions,
        use_cache=True,
        logits_to_keep=1,
    )
    warm.crop(-len(ids))
    logits: Tensor = output.logits[0, -1]
    return logits


def _milliseconds(work: Callable[[], object]) -> list[float]:
    return [seconds_of(work) * 1e3 for _ in range(REPEATS)][WARM:]
