"""Holding a question to its budget: what it reads is counted, and thresholds follow the count.

The budget is the share of the document cache's bytes that may be read per generated token.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from engine.attend.clusters import (
    AttendedClusters,
    ClusterAttention,
    DeviceSelection,
    FullSelection,
    Lookup,
    Selection,
)
from engine.document.budget import READ_ALL, BudgetCurve, Thresholds
from engine.document.cache import LayerCache

SWING = 2.0  # a pass aims at no less than budget / SWING and at no more than budget x SWING


@dataclass
class ReadMeter:
    """Bytes read by the forward passes of one question, beside what full attention would read.

    The first pass is the question's prefill, each later one a decoding step. A count that is still
    on a GPU stays there until somebody asks for it.

    Attributes:
        read: bytes read by each pass, numbers or () int64 tensors on the device.
        full: bytes that full attention would read in each pass.
    """

    read: list[int | Tensor] = field(default_factory=list)
    full: list[int] = field(default_factory=list)

    def begin_pass(self) -> None:
        """Open a new forward pass."""
        self.read.append(0)
        self.full.append(0)

    def add_pass(self, read: int | Tensor, full: int) -> None:
        """Add a whole forward pass, in bytes."""
        self.read.append(read)
        self.full.append(full)

    def count(
        self, layer: LayerCache, selection: Selection | DeviceSelection | FullSelection
    ) -> None:
        """Add one layer's reads to the open pass."""
        vector_bytes = layer.keys.shape[2] * layer.keys.element_size()
        clustered = 2 * selection.num_tokens + selection.centroids_read
        self.read[-1] += (layer.constant_vectors + clustered) * vector_bytes
        self.full[-1] += layer.full_vectors * vector_bytes

    @property
    def num_passes(self) -> int:
        """Forward passes begun."""
        return len(self.read)

    @property
    def bytes_read(self) -> int:
        """Bytes of document cache read in all passes; may wait for the GPU."""
        return self._settled()

    def share(self, start: int = 0, end: int | None = None) -> float:
        """Bytes read over full attention's bytes, in passes start to end; 0.0 for no pass."""
        full = sum(self.full[start:end])
        return self._settled(start, end) / full if full else 0.0

    def _settled(self, start: int = 0, end: int | None = None) -> int:
        """Bytes read in some passes, after waiting, once, for what is still being counted."""
        settled = [int(amount) for amount in self.read[start:end]]
        self.read[start:end] = settled
        return sum(settled)


class BudgetController:
    """Cluster attention for decoding whose thresholds follow what the question has read so far.

    A calibrated curve holds for the mean of its probes; one question's answer may lie well off it.
    The mean share over the decoding passes, not each pass alone, is held to the budget.

    Args:
        curve: calibrated for decoding.
        budget: share of the cache's bytes, in (0, 1).
        attention: from thresholds to the attention that applies them.
        meter: counts the question's passes; the first one is its prefill.
    """

    def __init__(
        self,
        curve: BudgetCurve,
        budget: float,
        attention: Callable[[Thresholds], ClusterAttention],
        meter: ReadMeter,
    ) -> None:
        self._curve = curve
        self._budget = budget
        self._attention_for = attention
        self._meter = meter
        self._num_passes = 0
        self._aimed = self._loaded = 0.0  # sums over the decoding passes
        self._attention = attention(READ_ALL)

    def attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        """Attend to what this pass may read; a new pass takes new thresholds."""
        while self._num_passes < self._meter.num_passes - 1:
            self._attention = self._attention_for(self.next_thresholds())
        return self._attention.attend(lookup, layer)

    def next_thresholds(self) -> Thresholds:
        """Take the thresholds of the next pass; to be called once before each pass."""
        done = self._num_passes
        if done > 0:
            self._loaded += self._meter.share(done, done + 1)
        aim = self._aim(done)
        self._num_passes += 1
        self._aimed += aim
        return self._curve.at(aim)

    def _aim(self, done: int) -> float:
        """The share to ask the curve for, so that the mean over the passes meets the budget."""
        if done == 0:
            return self._budget
        left = self._budget * (done + 1) - self._loaded
        wanted = min(max(left, self._budget / SWING), self._budget * SWING)
        return wanted * self._aimed / self._loaded  # corrects the curve's bias on this question


@dataclass(frozen=True)
class BudgetReport:
    """Shares of the document cache's bytes per generated token.

    Attributes:
        requested: the share that was asked for.
        applied: the share that was aimed at: the request, or the floor if that is higher.
        loaded: the share that was read, centroids included.
        loaded_prefill, loaded_decode: the same, for the question's prefill and for decoding apart.
        raised: whether the request was below the floor.
    """

    requested: float
    applied: float
    loaded: float
    loaded_prefill: float
    loaded_decode: float
    raised: bool


def report_budget(meter: ReadMeter, requested: float, applied: float) -> BudgetReport:
    """Say what a question read, in all its passes."""
    return BudgetReport(
        requested=requested,
        applied=applied,
        loaded=round(meter.share(), 4),
        loaded_prefill=round(meter.share(0, 1), 4),
        loaded_decode=round(meter.share(1), 4),
        raised=applied > requested,
    )
