"""Full attention under a head plan's masks, head by head: what dual caches must equal."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PretrainedConfig

from engine.model.head_plan import HeadPlan
from tests.models import random_model

NAME = "masked-by-plan"


def masked_logits(
    config: PretrainedConfig, plan: HeadPlan, ids: Tensor, num_document: int
) -> Tensor:
    """Logits (tokens, vocabulary) of a model whose streaming heads are masked as the plan says.

    The model keeps its order of heads, and sees document and question in one pass.

    Args:
        ids: the document's tokens, then the question's (tokens,).
        num_document: how many are the document's.
    """

    def attend(
        module: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        scaling: float,
        softcap: float | None = None,
        sliding_window: int | None = None,
        s_aux: Tensor | None = None,
        **_: Any,
    ) -> tuple[Tensor, None]:
        group = query.shape[1] // key.shape[1]
        outs = []
        for head in range(query.shape[1]):
            keys, values = key[0, head // group], value[0, head // group]
            streams = sliding_window is None and not plan.retrieval[module.layer_idx][head // group]
            scores = query[0, head].double() @ keys.double().T * scaling
            seen = _seen(len(ids), num_document, sliding_window, plan if streams else None)
            if streams and plan.compensation:
                keys, values, scores, seen = _with_mean(
                    plan, num_document, query[0, head], keys, values, scores, seen, scaling
                )
            if softcap is not None:
                scores = softcap * torch.tanh(scores / softcap)
            terms = scores.exp() * seen
            total = terms.sum(1, keepdim=True)
            if s_aux is not None:
                total = total + s_aux[head].double().exp()
            outs.append((terms @ values.double() / total).to(query.dtype))
        return torch.stack(outs, dim=1)[None], None

    AttentionInterface.register(NAME, attend)
    model: nn.Module = random_model(config)
    model.set_attn_implementation(NAME)  # type: ignore[operator]
    with torch.inference_mode():
        logits: Tensor = model(input_ids=ids[None], use_cache=False).logits[0]
    return logits


def _seen(
    num_tokens: int, num_document: int, sliding_window: int | None, plan: HeadPlan | None
) -> Tensor:
    """How often each token sees each: 0 or 1 (tokens, tokens) in float64."""
    seen = torch.zeros(num_tokens, num_tokens, dtype=torch.float64)
    for token in range(num_tokens):
        seen[token, : token + 1] = 1
        if sliding_window is not None:
            seen[token, : max(0, token - sliding_window + 1)] = 0
        if plan is not None:
            first = token - plan.window + 1 if token < num_document else num_document - plan.window
            seen[token, plan.num_sinks : max(first, plan.num_sinks)] = 0
    return seen


def _with_mean(
    plan: HeadPlan,
    num_document: int,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    scores: Tensor,
    seen: Tensor,
    scaling: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One more key: the mean of those that the question does not see, as often as they are."""
    dropped = slice(plan.num_sinks, max(num_document - plan.window, plan.num_sinks))
    number = dropped.stop - dropped.start
    if number == 0:
        return keys, values, scores, seen
    mean_key, mean_value = keys[dropped].mean(0), values[dropped].mean(0)
    mean_score = query.double() @ mean_key.double() * scaling
    often = torch.zeros(len(seen), 1, dtype=seen.dtype)
    often[num_document:] = number
    return (
        torch.cat((keys, mean_key[None])),
        torch.cat((values, mean_value[None])),
        torch.cat((scores, mean_score[:, None]), dim=1),
        torch.cat((seen, often), dim=1),
    )
