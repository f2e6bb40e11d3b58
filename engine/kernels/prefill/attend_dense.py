"""What every token of a question attends to without a lookup: dense keys."""

from dataclasses import dataclass

import torch
from torch import Tensor

from common.errors import ShapeError
from engine.kernels.shared.attend_keys import attend_keys
from engine.kernels.shared.checks import (
    check_contiguous,
    check_dims,
    check_heads,
    check_strided,
    check_values,
)
from engine.kernels.shared.merge_states import merge_states
from engine.kernels.shared.scores import visible
from engine.kernels.shared.sizes import has_kernels
from engine.kernels.shared.state import State


@dataclass(frozen=True, kw_only=True)
class AttendDenseInputs:
    """What `attend_dense` reads: a question's last tokens, and the keys that all of them see.

    The first KV heads are the retrieval heads, the others the streaming heads. All tensors have the
    query's dtype.

    Attributes:
        query: (kv_heads, group x num_tokens, head_dim), contiguous: row g x num_tokens + t is token
            t of the group's head g.
        num_tokens: how many tokens the query has; they are the question's last.
        question_keys, question_values: the question's own (kv_heads, question tokens, head_dim);
            the last dimension is contiguous. A token sees itself and those before it.
        anchor_keys, anchor_values: of the retrieval heads (retrieval, anchors, head_dim), of equal
            strides; each head is contiguous.
        streaming_keys, streaming_values: what streaming heads see of the document (streaming, keys,
            head_dim), of equal strides; each head is contiguous. None if there are no such heads.
        log_last_weight: what is added to the score of a streaming head's last key: the logarithm of
            the number of tokens that this key, the compensation token, stands for.
        window: the layer's sliding window: a token sees itself and the `window - 1` tokens before
            it. The anchors are then the document's last tokens in their order, right before the
            question, and there are no streaming heads. None for a layer without.
        scale, softcap: the model's own.
    """

    query: Tensor
    num_tokens: int
    question_keys: Tensor
    question_values: Tensor
    anchor_keys: Tensor
    anchor_values: Tensor
    streaming_keys: Tensor | None = None
    streaming_values: Tensor | None = None
    log_last_weight: float = 0.0
    window: int | None = None
    scale: float
    softcap: float | None = None

    def validate(self) -> None:
        """Check the tensors against each other, by their metadata alone.

        Raises: ShapeError if one does not fit or lies in memory in another way than stated.
        """
        heads, rows, head_dim = check_dims("query", self.query)
        dtype, device = self.query.dtype, self.query.device
        check_contiguous("query", self.query, (heads, rows, head_dim), dtype, device)
        own = self.question_keys.shape[1] if self.question_keys.ndim == 3 else -1
        for name, part in (("keys", self.question_keys), ("values", self.question_values)):
            check_strided(f"question {name}", part, (heads, own, head_dim), dtype, device)
            if part.stride(2) != 1:
                raise ShapeError(f"Question {name} are strided within a row: {part.stride()}.")
        if self.num_tokens < 1 or rows % self.num_tokens or own < self.num_tokens:
            raise ShapeError(f"{rows} rows and {own} keys for {self.num_tokens} tokens.")
        pairs = [("anchor", self.anchor_keys, self.anchor_values)]
        if self.streaming_keys is not None and self.streaming_values is not None:
            pairs.append(("streaming", self.streaming_keys, self.streaming_values))
        num_heads = 0
        for name, keys, values in pairs:
            part_heads, num_keys, _ = check_dims(f"{name} keys", keys)
            check_heads(f"{name} keys", keys, (part_heads, num_keys, head_dim), dtype, device)
            check_values(keys, values, device)
            num_heads += part_heads
        if num_heads != heads:
            raise ShapeError(f"Anchors and streaming keys of {num_heads} heads for {heads}.")
        if self.window is not None and (self.window < 1 or len(pairs) > 1):
            raise ShapeError(f"A window of {self.window} is of no token, or has streaming heads.")


def attend_dense(inputs: AttendDenseInputs) -> State:
    """Attend to the question causally, and to the anchors or to a streaming head's keys.

    In a layer with a window each token attends to what its window shows of them.

    On a GPU it is one launch, which takes what `supports` says.

    Args:
        inputs: a question's last tokens, and the keys that they see.
    Returns: the state of all KV heads: out (kv_heads, group x num_tokens, head_dim), lse (kv_heads,
        group x num_tokens) in nats.
    Raises: ShapeError if tensors do not fit together or lie in memory in another way than stated.
    Source: RazorAttention, equation 5; online softmax, https://arxiv.org/abs/1805.02867
    """
    inputs.validate()
    if inputs.query.is_cuda:
        from engine.kernels.prefill.triton.attend_dense import attend_dense_triton

        return attend_dense_triton(inputs)
    return attend_dense_reference(inputs)


def supports(head_dim: int) -> bool:
    """Return whether the kernel can take a layer's keys on a GPU.

    Args:
        head_dim: width of a key.
    """
    return has_kernels(head_dim)


def attend_dense_reference(inputs: AttendDenseInputs) -> State:
    """Compute `attend_dense` in torch, part by part.

    Args: as `attend_dense`; nothing is checked.
    Returns: as `attend_dense`.
    """
    i = inputs
    num_own, retrieval = i.question_keys.shape[1], len(i.anchor_keys)
    num_anchors, group = i.anchor_keys.shape[1], i.query.shape[1] // i.num_tokens
    position = torch.arange(num_own, device=i.query.device)
    asked = position[num_own - i.num_tokens :]  # of the query's tokens
    own = attend_keys(
        i.query,
        i.question_keys,
        i.question_values,
        scale=i.scale,
        softcap=i.softcap,
        mask=visible(asked, position, i.window).repeat(group, 1),
    )
    seen = None
    if i.window is not None:
        before = torch.arange(-num_anchors, 0, device=i.query.device)
        seen = visible(asked, before, i.window).repeat(group, 1)
    parts = [
        attend_keys(
            i.query[:retrieval],
            i.anchor_keys,
            i.anchor_values,
            scale=i.scale,
            softcap=i.softcap,
            mask=seen,
        )
    ]
    if i.streaming_keys is not None and i.streaming_values is not None:
        log_weights = torch.zeros(i.streaming_keys.shape[1], device=i.query.device)
        log_weights[-1] = i.log_last_weight
        parts.append(
            attend_keys(
                i.query[retrieval:],
                i.streaming_keys,
                i.streaming_values,
                scale=i.scale,
                softcap=i.softcap,
                bias=log_weights,
            )
        )
    document = State(torch.cat([p.out for p in parts]), torch.cat([p.lse for p in parts]))
    return merge_states(own, document)
