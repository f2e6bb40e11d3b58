"""How much heads look at echo and induction tokens, measured on random tokens that repeat.

An echo head looks back at the same token as the current one, an induction head at the token that
followed it. Source: RazorAttention, https://arxiv.org/abs/2407.15891, section 3.3.
"""

import torch
from torch import Tensor

from common.errors import InvalidInput, UnsupportedModel
from engine.kernels.prefill.attend_causal import attend_causal
from engine.model.attention import AttentionCall, forward
from engine.model.loader import LoadedModel
from engine.model.sink_logits import with_sink_logits
from precompute.streaming_prefill import StreamingPrefill


def measure_induction(
    model: LoadedModel, num_ids: int = 2500, repeats: int = 4, seed: int = 0
) -> "ScoringState":
    """Read random tokens that repeat, once.

    Args: as of `repeated_ids`.
    Returns: the state, with every layer's scores.
    Raises: as `repeated_ids`; UnsupportedModel for a model with linear biases (ALiBi).
    """
    ids, first = repeated_ids(model, num_ids, repeats, seed)
    state = ScoringState(first, num_ids)
    forward(model.for_length(len(ids)).model, ids.to(model.device), 0, state)
    return state


def most_ids(model: LoadedModel, most: int = 2500, repeats: int = 4) -> int:
    """How many random tokens can be repeated in a model's context, at most `most`."""
    return min(most, len(_plain_ids(model)), (model.spec.context_length - 1) // repeats)


def repeated_ids(model: LoadedModel, num_ids: int, repeats: int, seed: int) -> tuple[Tensor, int]:
    """The tokens to read, after the tokenizer's beginning-of-text token if it has one.

    Args:
        num_ids: random tokens, all different; repeats: how often they are read; seed: of the draw.
    Returns: ids (tokens,) int64, and where the first random token stands.
    Raises: InvalidInput if there are too few plain tokens, or too many for the context.
    """
    tokenizer, plain = model.tokenizer, _plain_ids(model)
    begin = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    num_tokens = len(begin) + num_ids * repeats
    if len(plain) < num_ids or num_tokens > model.spec.context_length:
        raise InvalidInput(
            f"{num_ids} different tokens, {repeats} times, are too many: the "
            f"vocabulary has {len(plain)} and the context takes {model.spec.context_length}."
        )
    order = torch.randperm(len(plain), generator=torch.Generator().manual_seed(seed))
    ids = plain[order[:num_ids]].repeat(repeats)
    return torch.cat((torch.tensor(begin, dtype=torch.int64), ids)), len(begin)


class ScoringState:
    """Full attention that notes how much each layer's heads look at echo and induction tokens.

    Only the few weights that matter are computed, from the log-sum-exp of attention: no matrix of
    tokens x tokens is needed.

    Args:
        first: where the repeated tokens begin; period: how many are repeated.
    Attributes:
        echo, induction: per layer met, per KV head, the mean weight over all tokens that were there
            before.
    """

    def __init__(self, first: int, period: int) -> None:
        self._first, self._period = first, period
        self.echo: list[tuple[float, ...]] = []
        self.induction: list[tuple[float, ...]] = []

    def attend(self, call: AttentionCall) -> Tensor:
        """Attend causally, and look at tokens that were there before.

        Heads with a sliding window score 0: they see nothing far away.
        """
        if call.alibi is not None:
            raise UnsupportedModel("Heads of an ALiBi model are told apart by their scope alone.")
        kv_heads = call.key.shape[0]
        if call.window is not None:
            self.echo.append((0.0,) * kv_heads)
            self.induction.append((0.0,) * kv_heads)
            return StreamingPrefill(call.key[:, :0], num_sinks=0, window=call.window).attend(call)
        state = attend_causal(
            call.query, call.key, call.value, scale=call.scale, softcap=call.softcap
        )
        state = with_sink_logits(state, call.sink_logits)
        self.echo.append(_best(self._weight(call, state.lse, after=0), kv_heads))
        self.induction.append(_best(self._weight(call, state.lse, after=1), kv_heads))
        return state.out

    def _weight(self, call: AttentionCall, lse: Tensor, *, after: int) -> Tensor:
        """Mean weight on the tokens `after` all earlier occurrences of the current one (heads,)."""
        num_tokens, group = call.query.shape[1], call.query.shape[0] // call.key.shape[0]
        total = torch.zeros(call.query.shape[0], device=call.query.device)
        for back in range(self._period, num_tokens - self._first, self._period):
            query = call.query[:, self._first + back :].float()
            seen = slice(self._first + after, num_tokens - back + after)
            keys = call.key[:, seen].float().repeat_interleave(group, dim=0)
            scores = (query * keys).sum(dim=-1) * call.scale
            if call.softcap is not None:
                scores = torch.tanh(scores / call.softcap) * call.softcap
            total += (scores - lse[:, self._first + back :]).exp().sum(dim=1)
        return total / (num_tokens - self._first - self._period)


def _best(scores: Tensor, kv_heads: int) -> tuple[float, ...]:
    """The best query head of each group."""
    return tuple(scores.reshape(kv_heads, -1).amax(dim=1).tolist())


def _plain_ids(model: LoadedModel) -> Tensor:
    """Tokens that are no special ones (tokens,) int64."""
    tokenizer = model.tokenizer
    special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    return torch.tensor([one for one in range(tokenizer.vocab_size) if one not in special])
