"""One forward pass for the tokens of several questions, about whatever documents.

All tokens stand one behind the other in a batch of one, each at its own position. What a model does
to single tokens (linear layers, norms, RoPE) is done to all of them at once; attention is each
question's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor, nn

from engine.attend.question import QuestionState
from engine.attend.rows import MIN_ROWS, attend_own, attend_rows, can_share
from engine.kernels.shared.attend_keys import MAX_SCORES
from engine.kernels.shared.state import State
from engine.model.attention import AttentionCall, forward


@dataclass(frozen=True)
class PackedTokens:
    """The tokens that one question has in a pass.

    Attributes:
        state: of the question.
        ids: (tokens,) int64 on the model's device.
    """

    state: QuestionState
    ids: Tensor


@dataclass(frozen=True)
class PackedStates:
    """The attention states of the questions in a pass; an `AttentionState`.

    Attributes:
        states: in the order of their tokens.
        lengths: tokens of each.
    """

    states: tuple[QuestionState, ...]
    lengths: tuple[int, ...]

    def attend(self, call: AttentionCall) -> Tensor:
        """Let every question attend for its own tokens.

        Returns: outputs (heads, tokens, head_dim) in the query's dtype.
        """
        groups = self._groups(call)
        out = torch.empty_like(call.query)
        if groups:
            self._attend_shared(call, groups, out)
        shared = {row for rows in groups for row in rows}
        start = 0
        for row, (state, length) in enumerate(zip(self.states, self.lengths, strict=True)):
            if row not in shared:
                mine = slice(start, start + length)
                out[:, mine] = state.attend(_part(call, mine))
            start += length
        return out

    def _attend_shared(self, call: AttentionCall, groups: list[list[int]], out: Tensor) -> None:
        """Attend for rows of single tokens, those about one document together."""
        starts = list(accumulate(self.lengths, initial=0))
        places = torch.tensor([starts[row] for rows in groups for row in rows])
        states = [self.states[row] for rows in groups for row in rows]
        packed = _part(call, places)
        own = attend_own(states, packed)
        group = call.query.shape[0] // call.key.shape[0]
        found, start = [], 0
        for rows in groups:
            end = start + len(rows)
            mine = slice(start * group, end * group)
            part = State(own.out[:, mine], own.lse[:, mine])
            found.append(attend_rows(states[start:end], _part(packed, slice(start, end)), part))
            start = end
        out.index_copy_(1, places, torch.cat(found, dim=1))

    def _groups(self, call: AttentionCall) -> list[list[int]]:
        """Rows of single tokens about the same document, where they may be attended together."""
        groups: dict[int, list[int]] = {}
        for row, (state, length) in enumerate(zip(self.states, self.lengths, strict=True)):
            if length == 1 and can_share(call, state):
                groups.setdefault(id(state.document), []).append(row)
        parts = []
        for rows in groups.values():
            num_tokens = self.states[rows[0]].document.num_tokens
            most = max(1, MAX_SCORES // (call.query.shape[0] * num_tokens))
            parts += [rows[start : start + most] for start in range(0, len(rows), most)]
        return [rows for rows in parts if len(rows) >= MIN_ROWS]


def _part(call: AttentionCall, tokens: slice | Tensor) -> AttentionCall:
    """A call for some of its tokens alone."""
    query, key, value = (part[:, tokens] for part in (call.query, call.key, call.value))
    return replace(call, query=query, key=key, value=value)


@torch.inference_mode()
def packed_forward(model: nn.Module, parts: Sequence[PackedTokens]) -> Tensor:
    """Take a pass for several questions.

    Args:
        parts: at least one, no question twice.
    Returns: logits (parts, vocabulary) fp32 after the last token of each part.
    """
    if len(parts) == 1:
        (part,) = parts
        return forward(model, part.ids, part.state.position, part.state)
    lengths = tuple(len(part.ids) for part in parts)
    starts = [part.state.position for part in parts]
    places = [
        position
        for start, length in zip(starts, lengths, strict=True)
        for position in range(start, start + length)
    ]
    ids = torch.cat([part.ids for part in parts])
    ends = torch.tensor(lengths).cumsum(0) - 1
    return forward(
        model,
        ids,
        torch.tensor(places).to(ids.device),
        PackedStates(tuple(part.state for part in parts), lengths),
        keep=ends.to(ids.device),
    )
