"""Measuring, on probes, which heads find what is asked for, and what is attended to anyway."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.attend.clusters import Lookup
from engine.document.cache import DocumentCache, LayerCache
from engine.document.retrieval_profile import MOST_HEADS, RetrievalProfile
from engine.kernels.shared.attend_keys import attention_weights

MOST_PASSES = 4  # of each probe's answer
# Attention weights in fp32 that are held at a time: few on a CPU, for its cache.
MOST_WEIGHTS = {"cpu": 1 << 22, "cuda": 1 << 27}


@dataclass(frozen=True)
class ProbePasses:
    """The tokens of one probe behind which its answer's tokens are drawn.

    Attributes:
        tokens: their places in the pass of all probes.
        first, last: half-open span of the document's tokens in which the answer stands.
    """

    tokens: tuple[int, ...]
    first: int
    last: int


class RetrievalProfiler:
    """Counts attention mass of probes, layer by layer, and makes a profile of it.

    Args:
        document: laid out.
    """

    def __init__(self, document: DocumentCache) -> None:
        layers = document.layers
        most_heads = max((layer.num_retrieval for layer in layers), default=0)
        device = layers[0].keys.device if layers else torch.device("cpu")
        # Mass on the answer's passage, by layer and head.
        self._found = torch.zeros(len(layers), most_heads, device=device)
        self._neutral = torch.zeros(document.num_tokens, device=device)
        self._groups = [1] * len(layers)
        self._num_counted = [0] * len(layers)
        self._num_neutral = 0
        self._num_sinks = document.num_sinks

    def count(
        self, lookup: Lookup, lse: Tensor, layer: LayerCache, probes: Sequence[ProbePasses]
    ) -> None:
        """Count one layer's attention in a pass of probes.

        Args:
            lookup: rows of all tokens of the pass (kv_heads, group x tokens, head_dim).
            lse: log-sum-exp over all that they attended to (kv_heads, group x tokens).
        """
        group, index, device = lookup.group, lookup.layer_index, lookup.rows.device
        tokens = torch.tensor([token for probe in probes for token in probe.tokens], device=device)
        rows = _of_tokens(lookup.rows, group, tokens)
        row_lse = _of_tokens(lse[..., None], group, tokens)[..., 0].contiguous()
        lengths = torch.tensor([len(probe.tokens) for probe in probes])
        # (probes, tokens): what is summed over a probe's tokens counts for one pass.
        mean = torch.repeat_interleave(torch.diag(1 / lengths), lengths, dim=1).to(device)
        spans = torch.tensor([(probe.first, probe.last) for probe in probes], device=device)
        self._groups[index] = group
        self._num_counted[index] += len(probes)
        heads, num_keys = layer.num_retrieval, layer.keys.shape[1]
        step = max(1, MOST_WEIGHTS[device.type] // (rows.shape[1] * num_keys))
        for start in range(0, heads, step):
            some = slice(start, min(start + step, heads))
            squares = attention_weights(
                rows[some],
                layer.keys[some],
                row_lse[some],
                scale=lookup.scale,
                softcap=lookup.softcap,
                power=2.0,
            )
            by_group = squares.view(len(squares), group, len(tokens), num_keys)
            by_token = by_group.sum(dim=1)
            mass = mean @ by_token  # (some heads, probes, keys)
            places = layer.positions[some]
            at = places[:, None]
            is_own = (at >= spans[:, :1]) & (at < spans[:, 1:])
            self._found[index, some] += (mass * is_own).sum(dim=(1, 2)) / group
            weight = self._found[index, some] / self._num_counted[index]
            others = mass.masked_fill_(is_own, 0.0).sum(dim=1) * weight[:, None]
            self._neutral.index_add_(0, places.flatten().long(), others.flatten())
        if index == self._first_counted:
            self._num_neutral += len(probes)

    @property
    def _first_counted(self) -> int:
        return next(at for at, counted in enumerate(self._num_counted) if counted)

    def profile(self) -> RetrievalProfile | None:
        """Return the profile; None where no head found anything."""
        counted = torch.tensor(self._num_counted).clamp(min=1)[:, None]
        weights = self._found.cpu() / counted
        groups = torch.tensor(self._groups)[:, None]
        total = float((weights * groups).sum())
        if self._num_neutral == 0 or not total > 0.0:
            return None
        # What the heads that are left out give to any token is taken to be as the others' share.
        neutral = self._neutral.cpu() / (self._num_neutral * total)
        neutral[: self._num_sinks] = 0.0
        kept = _largest(weights, MOST_HEADS)
        return RetrievalProfile(kept / (kept * groups).sum(), neutral)


def _largest(weights: Tensor, most: int) -> Tensor:
    """Keep the largest weights (layers, heads), `most` of them; all others are 0 then."""
    chosen = weights.flatten().topk(min(most, weights.numel())).indices
    kept = torch.zeros_like(weights)
    kept.view(-1)[chosen] = weights.flatten()[chosen]
    return kept


def _of_tokens(rows: Tensor, group: int, tokens: Tensor) -> Tensor:
    """Rows (kv_heads, group x tokens, width) of some of the tokens, in the same order."""
    heads, num_rows, width = rows.shape
    by_token = rows.reshape(heads, group, num_rows // group, width)
    return by_token[:, :, tokens].reshape(heads, group * len(tokens), width)
