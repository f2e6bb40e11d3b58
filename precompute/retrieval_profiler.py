"""Measuring, on probes, which heads find what is asked for, and what is attended to anyway."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.attend.clusters import Lookup
from engine.document.cache import DocumentCache, LayerCache
from engine.document.retrieval_profile import RetrievalProfile
from engine.kernels.shared.attend_keys import attention_weights

MOST_PASSES = 4  # of each probe's answer


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
        self._found = torch.zeros(len(layers), most_heads)  # mass on the answer's passage
        self._neutral = torch.zeros(document.num_tokens)
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
        heads, group = layer.num_retrieval, lookup.group
        index, positions = lookup.layer_index, layer.positions.long()
        masses, owns = [], []
        for probe in probes:
            tokens = torch.tensor(probe.tokens, device=lookup.rows.device)
            rows = _of_tokens(lookup.rows, group, tokens)
            weights = attention_weights(
                rows,
                layer.keys,
                _of_tokens(lse[..., None], group, tokens)[..., 0].contiguous(),
                scale=lookup.scale,
                softcap=lookup.softcap,
            )
            mass = weights.square().sum(dim=1) / len(probe.tokens)  # (heads, keys), for a pass
            own = (positions >= probe.first) & (positions < probe.last)
            masses.append(mass.masked_fill(own, 0.0))
            owns.append((mass * own).sum(dim=1).cpu())
        self._groups[index] = group
        self._num_counted[index] += len(probes)
        self._found[index, :heads] += torch.stack(owns).sum(dim=0) / group
        weight = self._found[index, :heads] / self._num_counted[index]
        total = torch.zeros(len(self._neutral), device=positions.device)
        for mass in masses:
            weighted = mass * weight.to(mass.device)[:, None]
            total.index_add_(0, positions.flatten(), weighted.flatten())
        self._neutral += total.cpu()
        if index == self._first_counted:
            self._num_neutral += len(probes)

    @property
    def _first_counted(self) -> int:
        return next(at for at, counted in enumerate(self._num_counted) if counted)

    def profile(self) -> RetrievalProfile | None:
        """Return the profile; None where no head found anything."""
        counted = torch.tensor(self._num_counted).clamp(min=1)[:, None]
        weights = self._found / counted
        total = float((weights * torch.tensor(self._groups)[:, None]).sum())
        if self._num_neutral == 0 or not total > 0.0:
            return None
        neutral = self._neutral / (self._num_neutral * total)
        neutral[: self._num_sinks] = 0.0
        return RetrievalProfile(weights / total, neutral)


def _of_tokens(rows: Tensor, group: int, tokens: Tensor) -> Tensor:
    """Rows (kv_heads, group x tokens, width) of some of the tokens, in the same order."""
    heads, num_rows, width = rows.shape
    by_token = rows.reshape(heads, group, num_rows // group, width)
    return by_token[:, :, tokens].reshape(heads, group * len(tokens), width)
