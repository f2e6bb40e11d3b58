"""How much attention tokens get, added up by their positions in the document."""

from dataclasses import dataclass

import torch
from torch import Tensor

from common.errors import ShapeError
from engine.kernels.shared.attend_keys import attention_weights_reference
from engine.kernels.shared.checks import check_contiguous, check_dims, check_heads

LENGTH_BITS = 5  # of a segment's entry: the low bits hold its length, the others its start
LENGTH_MASK = (1 << LENGTH_BITS) - 1
MAX_SEGMENT = 16  # tokens


@dataclass(frozen=True)
class AttendedTokens:
    """The clustered tokens that each head attended to, as a list on the device.

    Clustered tokens are counted from the first one behind the anchors. An entry is one token, or a
    segment: a few consecutive tokens.

    Attributes:
        entries: (kv_heads, capacity) int32, contiguous. Indices of clustered tokens; where
            `segment_size` > 1, segments as start x 32 + length.
        counts: (kv_heads,) int32, contiguous: how many entries of each head are valid.
        segment_size: the longest segment in tokens, a power of two of at most 16; 1 if the entries
            are single tokens.
        scores: (kv_heads, group, clustered tokens) fp32, contiguous: raw scores of at least the
            listed tokens, as `attend_runs` leaves them. Their keys are then not read again. None if
            there are no such scores.
    """

    entries: Tensor
    counts: Tensor
    segment_size: int = 1
    scores: Tensor | None = None

    def validate(self, heads: int, group: int, num_tokens: int, device: torch.device) -> None:
        """Check the tensors against the sizes of a layer.

        Args:
            heads: KV heads that attended.
            group: query heads per KV head.
            num_tokens: clustered tokens of a head.
        Raises: ShapeError if one does not fit or is strided.
        """
        capacity = self.entries.shape[1] if self.entries.ndim == 2 else -1
        check_contiguous("entries", self.entries, (heads, capacity), torch.int32, device)
        check_contiguous("counts", self.counts, (heads,), torch.int32, device)
        size = self.segment_size
        if not 1 <= size <= MAX_SEGMENT or size & (size - 1):
            raise ShapeError(f"Segments of {size} tokens: no power of two of at most 16.")
        if self.scores is not None:
            shape = (heads, group, num_tokens)
            check_contiguous("scores", self.scores, shape, torch.float32, device)


@dataclass(frozen=True, kw_only=True)
class AttentionMassInputs:
    """What `accumulate_attention_mass` reads: one token's attention in one layer.

    Attributes:
        query: (kv_heads, group, head_dim), contiguous.
        lse: log-sum-exp in nats over all that the token saw (kv_heads, group), fp32, contiguous.
        keys: (kv_heads, num_anchors + clustered tokens, head_dim) in the query's dtype; each head
            is contiguous.
        positions: (kv_heads, num_anchors + clustered tokens) int32, contiguous: the position of
            each key in the document.
        attended: the clustered tokens that were attended to.
        num_anchors: how many keys come first that every token attends to.
        scale, softcap: the model's own.
    """

    query: Tensor
    lse: Tensor
    keys: Tensor
    positions: Tensor
    attended: AttendedTokens
    num_anchors: int
    scale: float
    softcap: float | None = None

    def validate(self) -> None:
        """Check the tensors against each other, by their metadata alone.

        Raises: ShapeError if one does not fit or lies in memory in another way than stated.
        """
        heads, group, head_dim = check_dims("query", self.query)
        dtype, device = self.query.dtype, self.query.device
        check_contiguous("query", self.query, (heads, group, head_dim), dtype, device)
        check_contiguous("lse", self.lse, (heads, group), torch.float32, device)
        num_keys = self.keys.shape[1] if self.keys.ndim == 3 else -1
        check_heads("keys", self.keys, (heads, num_keys, head_dim), dtype, device)
        check_contiguous("positions", self.positions, (heads, num_keys), torch.int32, device)
        if num_keys < self.num_anchors:
            raise ShapeError(f"{num_keys} keys cannot begin with {self.num_anchors} anchors.")
        self.attended.validate(heads, group, num_keys - self.num_anchors, device)


def accumulate_attention_mass(mass: Tensor, inputs: AttentionMassInputs) -> None:
    """Add the squares of one token's attention weights, summed over the group, to `mass`.

    Anchors and the listed tokens are counted. On a GPU nothing waits for the host; the order of the
    additions, and so their rounding, may differ from run to run.

    Args:
        mass: (document tokens,) fp32, contiguous, by position in the document; it is added to.
        inputs: the token's attention.
    Raises: ShapeError if tensors do not fit together or lie in memory in another way than stated.
    """
    inputs.validate()
    tokens = mass.shape[0] if mass.ndim == 1 else -1
    check_contiguous("mass", mass, (tokens,), torch.float32, inputs.query.device)
    if mass.is_cuda:
        from engine.kernels.shared.triton.accumulate_attention_mass import (
            accumulate_attention_mass_triton,
        )

        accumulate_attention_mass_triton(mass, inputs)
    else:
        accumulate_attention_mass_reference(mass, inputs)


def accumulate_attention_mass_reference(mass: Tensor, inputs: AttentionMassInputs) -> None:
    """Compute `accumulate_attention_mass` in torch, head by head.

    Args: as `accumulate_attention_mass`; nothing is checked.
    """
    i, attended = inputs, inputs.attended
    anchors = torch.arange(i.num_anchors, device=i.keys.device)
    for head, count in enumerate(attended.counts.tolist()):
        tokens = listed_tokens(attended.entries[head, :count], attended.segment_size)
        weighed = anchors  # keys whose weights are computed from the keys themselves
        if attended.scores is None:
            weighed = torch.cat((anchors, i.num_anchors + tokens))
        else:
            weights = (attended.scores[head][:, tokens] - i.lse[head][:, None]).exp()
            places = i.positions[head, i.num_anchors + tokens].long()
            mass.index_add_(0, places, weights.square().sum(0))
        weights = attention_weights_reference(
            i.query[head][None],
            i.keys[head, weighed][None],
            i.lse[head][None],
            scale=i.scale,
            softcap=i.softcap,
            bias=None,
        )
        mass.index_add_(0, i.positions[head, weighed].long(), weights[0].square().sum(0))


def listed_tokens(entries: Tensor, segment_size: int) -> Tensor:
    """Return the tokens that entries stand for, one by one.

    Args:
        entries: (count,) int32, tokens or segments as of `AttendedTokens`.
        segment_size: the longest segment; 1 if the entries are tokens.
    Returns: (tokens,) int64, in the order of the entries.
    """
    if segment_size == 1:
        return entries.long()
    lane = torch.arange(segment_size, device=entries.device)
    tokens = (entries >> LENGTH_BITS).long()[:, None] + lane  # (count, segment_size)
    return tokens[lane < (entries & LENGTH_MASK)[:, None]]
