"""One forward pass for the tokens of several questions, about whatever documents.

All tokens stand one behind the other in a batch of one, each at its own position. What a model does
to single tokens (linear layers, norms, RoPE) is done to all of them at once; attention is each
question's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from engine.attend.question import QuestionState
from engine.attend.rows import MIN_ROWS, attend_rows, can_share
from engine.kernels.shared.attend_keys import MAX_SCORES
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
        queries, keys, values = (
            torch.split(part, list(self.lengths), dim=1)
            for part in (call.query, call.key, call.value)
        )
        out: list[Tensor | None] = [None] * len(self.states)
        for rows in self._groups(call):
            states = [self.states[row] for row in rows]
            query, key, value = (
                torch.cat([part[row] for row in rows], dim=1) for part in (queries, keys, values)
            )
            found = attend_rows(states, replace(call, query=query, key=key, value=value))
            for row, one in zip(rows, found.chunk(len(rows), dim=1), strict=True):
                out[row] = one
        for row, state in enumerate(self.states):
            if out[row] is None:
                part = replace(call, query=queries[row], key=keys[row], value=values[row])
                out[row] = state.attend(part)
        return torch.cat([one for one in out if one is not None], dim=1)

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
