"""RazorAttention: echo heads and induction heads, found on random tokens that repeat.

An echo head looks back at the same token as the current one, an induction head at the token that
followed it. Source: RazorAttention, https://arxiv.org/abs/2407.15891, section 3.3.
"""

from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from common.errors import InvalidInput, UnsupportedModel
from engine.kernels.prefill.attend_causal import attend_causal
from engine.model.attention import AttentionCall, forward
from engine.model.loader import LoadedModel
from precompute.heads.base import (
    HeadMethod,
    Heads,
    Measure,
    Progress,
    Scores,
    chosen_heads,
    num_chosen,
    ranked,
    refuse_plan,
)
from precompute.streaming_prefill import StreamingPrefill

ECHO = "echo"


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


CONFIG = RazorConfig


def build(config: RazorConfig | None = None) -> "Razor":
    """Build the method."""
    return Razor(config or RazorConfig())


class Razor(HeadMethod):
    """Attention to echo and induction tokens; a KV head counts as its best query head."""

    def __init__(self, config: RazorConfig) -> None:
        self._config = config

    def measure(self, model: LoadedModel, progress: Progress) -> Measure:
        """Read the tokens once.

        Returns: the induction scores; echo scores beside them.
        Raises: InvalidInput if vocabulary or context are too small, or if the model was loaded with
            a head plan; UnsupportedModel with ALiBi.
        """
        refuse_plan(model)
        ids, first = repeated_ids(model, self._config)
        state = ScoringState(first, self._config.num_ids)
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


def _flat(scores: Scores) -> list[float]:
    return [score for layer in scores for score in layer]
