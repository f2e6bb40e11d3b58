"""RazorAttention: echo heads and induction heads, found on random tokens that repeat.

An echo head looks back at the same token as the current one, an induction head at the token that
followed it. Source: RazorAttention, https://arxiv.org/abs/2407.15891, section 3.3.
"""

from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from common.errors import InvalidInput, UnsupportedModel
from engine.attention import AttentionCall, forward
from engine.kernels.attend_keys import attend_keys
from engine.model import LoadedModel
from engine.question import visible
from precompute.heads.base import (
    Heads,
    Measure,
    Progress,
    Scores,
    chosen_heads,
    num_chosen,
    ranked,
)

ECHO = "echo"
MAX_SCORES = 1 << 26  # fp32 scores of all heads held at a time: 256 MiB


@dataclass(frozen=True)
class RazorConfig:
    """Settings of the method.

    Attributes:
        num_ids: random tokens, all different.
        repeats: how often the sequence of them is read.
        echo, induction: shares of echo and induction heads among retrieval heads, as the paper's
            1 % and 14 % of all heads; any ratio of heads is parted as they are.
        seed: of the tokens.
    """

    num_ids: int = 2500
    repeats: int = 4
    echo: float = 0.01
    induction: float = 0.14
    seed: int = 0


def build(config: RazorConfig | None = None) -> "Razor":
    """Build the method."""
    return Razor(config or RazorConfig())


class Razor:
    """Attention to echo and induction tokens; a KV head counts as its best query head."""

    def __init__(self, config: RazorConfig) -> None:
        self._config = config

    def measure(self, model: LoadedModel, progress: Progress) -> Measure:
        """Read the tokens once.

        Returns: the induction scores; echo scores beside them.
        Raises: InvalidInput if vocabulary or context are too small; UnsupportedModel with ALiBi.
        """
        ids, first = repeated_ids(model, self._config)
        state = _ScoringState(first, self._config.num_ids, len(ids))
        progress(0, 1)
        forward(model.model, ids.to(model.device), 0, state)
        progress(1, 1)
        return Measure(tuple(state.induction), asdict(self._config), {ECHO: tuple(state.echo)})

    def choose(self, measure: Measure, ratio: float) -> Heads:
        """The best echo heads' part of a share of the heads, and the rest the best induction heads.

        Heads that are both count once, so the share is kept.
        """
        induction, echo = _flat(measure.scores), _flat(measure.others[ECHO])
        config, total = self._config, num_chosen(len(induction), ratio)
        part = config.echo / (config.echo + config.induction)
        chosen = ranked(echo)[: min(total, num_chosen(len(echo), ratio * part))]
        others = [head for head in ranked(induction) if head not in chosen]
        return chosen_heads(measure.scores, chosen + others[: total - len(chosen)])


def repeated_ids(model: LoadedModel, config: RazorConfig) -> tuple[Tensor, int]:
    """The tokens to read, after the tokenizer's beginning-of-text token if it has one.

    Returns: ids (tokens,) int64, and where the first random token stands.
    Raises: InvalidInput if there are too few plain tokens, or too many for the context.
    """
    tokenizer = model.tokenizer
    special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    plain = torch.tensor([one for one in range(tokenizer.vocab_size) if one not in special])
    begin = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    num_tokens = len(begin) + config.num_ids * config.repeats
    if len(plain) < config.num_ids or num_tokens > model.spec.context_length:
        raise InvalidInput(
            f"{config.num_ids} different tokens, {config.repeats} times, are too many: the "
            f"vocabulary has {len(plain)} and the context takes {model.spec.context_length}."
        )
    order = torch.randperm(len(plain), generator=torch.Generator().manual_seed(config.seed))
    ids = plain[order[: config.num_ids]].repeat(config.repeats)
    return torch.cat((torch.tensor(begin, dtype=torch.int64), ids)), len(begin)


class _ScoringState:
    """Full attention that notes how much each layer's heads look at echo and induction tokens.

    No matrix of tokens x tokens is kept: queries come in blocks, and from a block only the few
    weights that matter are taken.
    """

    def __init__(self, first: int, period: int, num_tokens: int) -> None:
        self._first, self._period, self._num_tokens = first, period, num_tokens
        self.echo: list[tuple[float, ...]] = []
        self.induction: list[tuple[float, ...]] = []

    def attend(self, call: AttentionCall) -> Tensor:
        """Attend causally, and add up weights of tokens that were there before."""
        if call.alibi is not None:
            raise UnsupportedModel("Heads of an ALiBi model are told apart by their scope alone.")
        heads, num_tokens, head_dim = call.query.shape
        kv_heads = call.key.shape[0]
        rows_at_a_time = max(1, MAX_SCORES // (heads * num_tokens))
        outs = []
        echo = torch.zeros(heads, device=call.query.device)
        induction = torch.zeros_like(echo)
        at = torch.arange(num_tokens, device=call.query.device)
        for start in range(0, num_tokens, rows_at_a_time):
            tokens = at[start : start + rows_at_a_time]
            query = call.query[:, start : start + rows_at_a_time]
            end = start + len(tokens)
            mask = visible(tokens, at[:end], call.window).repeat(heads // kv_heads, 1)
            state = attend_keys(
                query.reshape(kv_heads, -1, head_dim),
                call.key[:, :end],
                call.value[:, :end],
                scale=call.scale,
                softcap=call.softcap,
                mask=mask,
            )
            outs.append(state.out.reshape(query.shape))
            lse = state.lse.reshape(heads, len(tokens))
            echo += self._weights(call, query, lse, tokens, 0)
            induction += self._weights(call, query, lse, tokens, 1)
        repeated = max(1, num_tokens - self._first - self._period)
        self.echo.append(_best(echo / repeated, kv_heads))
        self.induction.append(_best(induction / repeated, kv_heads))
        return torch.cat(outs, dim=1)

    def _weights(
        self, call: AttentionCall, query: Tensor, lse: Tensor, tokens: Tensor, after: int
    ) -> Tensor:
        """Weight on the tokens `after` each earlier occurrence of the current one, summed (heads,).

        Args:
            query: (heads, tokens, head_dim) of the tokens' rows; lse: (heads, tokens).
        """
        group = call.query.shape[0] // call.key.shape[0]
        total = torch.zeros(call.query.shape[0], device=query.device)
        back = self._period
        while back < self._num_tokens - self._first:
            seen = tokens - back + after
            known = (tokens - back >= self._first) & visible_pairs(tokens, seen, call.window)
            keys = call.key[:, seen.clamp(min=0)].repeat_interleave(group, dim=0).float()
            scores = (query.float() * keys).sum(dim=-1) * call.scale
            if call.softcap is not None:
                scores = torch.tanh(scores / call.softcap) * call.softcap
            total += (scores - lse).exp().masked_fill(~known, 0.0).sum(dim=1)
            back += self._period
        return total


def visible_pairs(queries: Tensor, keys: Tensor, window: int | None) -> Tensor:
    """Whether each query sees its key, one by one: (pairs,) bool."""
    distance = queries - keys
    return (distance >= 0) if window is None else (distance >= 0) & (distance < window)


def _best(scores: Tensor, kv_heads: int) -> tuple[float, ...]:
    """The best query head of each group."""
    return tuple(scores.reshape(kv_heads, -1).amax(dim=1).tolist())


def _flat(scores: Scores) -> list[float]:
    return [score for layer in scores for score in layer]
