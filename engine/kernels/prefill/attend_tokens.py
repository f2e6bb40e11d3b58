"""Exact attention over the tokens that are listed for each head."""

from dataclasses import dataclass

import torch
from torch import Tensor

from common.errors import ShapeError
from engine.kernels.shared.attend_keys import attend_keys
from engine.kernels.shared.checks import check_contiguous, check_dims, check_heads, check_values
from engine.kernels.shared.merge_states import merge_states
from engine.kernels.shared.sizes import MAX_ELEMENTS
from engine.kernels.shared.state import State


@dataclass(frozen=True, kw_only=True)
class AttendTokensInputs:
    """What `attend_tokens` reads: a question's rows, keys, and which of them each head attends to.

    Attributes:
        query: (kv_heads, group x tokens, head_dim), contiguous.
        keys, values: (kv_heads, num_keys, head_dim) in the query's dtype, of equal strides; each
            head is contiguous.
        tokens: (kv_heads, capacity) int32, contiguous: indices into the keys.
        counts: (kv_heads,) int32, contiguous: how many indices of each head are valid; may be 0.
        dense_state: the state of the keys that are attended to without a lookup: out (kv_heads,
            group x tokens, head_dim) in the query's dtype, lse (kv_heads, group x tokens) in nats,
            both contiguous.
        scale, softcap: the model's own.
    """

    query: Tensor
    keys: Tensor
    values: Tensor
    tokens: Tensor
    counts: Tensor
    dense_state: State
    scale: float
    softcap: float | None = None

    def validate(self) -> None:
        """Check the tensors against each other, by their metadata alone.

        Raises: ShapeError if one does not fit or lies in memory in another way than stated, or if a
            head's keys hold 2^31 elements or more.
        """
        heads, rows, head_dim = check_dims("query", self.query)
        dtype, device = self.query.dtype, self.query.device
        check_contiguous("query", self.query, (heads, rows, head_dim), dtype, device)
        num_keys = self.keys.shape[1] if self.keys.ndim == 3 else -1
        check_heads("keys", self.keys, (heads, num_keys, head_dim), dtype, device)
        check_values(self.keys, self.values, device)
        if num_keys * head_dim >= MAX_ELEMENTS:
            raise ShapeError(f"{num_keys} keys of {head_dim} are too many for one head.")
        capacity = self.tokens.shape[1] if self.tokens.ndim == 2 else -1
        check_contiguous("tokens", self.tokens, (heads, capacity), torch.int32, device)
        check_contiguous("counts", self.counts, (heads,), torch.int32, device)
        out, lse = self.dense_state
        check_contiguous("out of the dense state", out, (heads, rows, head_dim), dtype, device)
        check_contiguous("lse of the dense state", lse, (heads, rows), torch.float32, device)


def attend_tokens(inputs: AttendTokensInputs) -> State:
    """Attend to the listed tokens of each head, and merge the result with the dense state.

    On a GPU the work is divided evenly over heads with very different numbers of tokens, and
    nothing waits for the host.

    Args:
        inputs: what is attended to.
    Returns: the joint state.
    Raises: ShapeError if tensors do not fit together or lie in memory in another way than stated,
        or if a head's keys hold 2^31 elements or more.
    Source: Squeezed Attention, section 4.2; Flash-Decoding.
    """
    inputs.validate()
    if inputs.query.is_cuda:
        from engine.kernels.prefill.triton.attend_tokens.launch import attend_tokens_triton

        return attend_tokens_triton(inputs)
    return attend_tokens_reference(inputs)


def attend_tokens_reference(inputs: AttendTokensInputs) -> State:
    """Compute `attend_tokens` in torch, head by head.

    Args: as `attend_tokens`; nothing is checked.
    Returns: as `attend_tokens`.
    """
    i, parts = inputs, []
    for head, count in enumerate(i.counts.tolist()):
        tokens = i.tokens[head, :count].long()
        part = attend_keys(
            i.query[head : head + 1],
            i.keys[head, tokens][None],
            i.values[head, tokens][None],
            scale=i.scale,
            softcap=i.softcap,
        )
        parts.append(part)
    selected = State(torch.cat([p.out for p in parts]), torch.cat([p.lse for p in parts]))
    return merge_states(i.dense_state, selected)
