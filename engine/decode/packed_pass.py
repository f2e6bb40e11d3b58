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
        lengths = list(self.lengths)
        parts = zip(
            self.states,
            torch.split(call.query, lengths, dim=1),
            torch.split(call.key, lengths, dim=1),
            torch.split(call.value, lengths, dim=1),
            strict=True,
        )
        out = [
            state.attend(replace(call, query=query, key=key, value=value))
            for state, query, key, value in parts
        ]
        return torch.cat(out, dim=1)


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
