"""Holding a question to its budget: what it reads is counted, and thresholds follow the count.

The budget is the share of the document cache's bytes that may be read per generated token.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import mul

import torch
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
from engine.document.cache import DocumentCache, LayerCache

LAG = 1  # passes before the next one whose reads may still be counted
SWING = 2.0  # a pass aims at no less than budget / SWING and at no more than budget x SWING


@dataclass
class ReadMeter:
    """Bytes read by the forward passes of one question, beside what full attention would read.

    The first passes are the question's prefill, each later one a decoding step. A count that is
    still on a GPU stays there until somebody asks for it. Layers with a sliding window are counted
    apart: whatever the budget, a pass reads them whole.

    Attributes:
        full: bytes that full attention would read in each pass.
        windowed: bytes of layers with a sliding window, of all passes.
        num_prefills: how many passes the question's prefill takes, or took so far.
    """

    full: list[int] = field(default_factory=list)
    windowed: int = 0
    num_prefills: int = 1
    _read: list[int | Tensor] = field(default_factory=list)
    # By pass, counts of tokens that are still on a device, and the bytes of each such token.
    _listed: dict[int, list[tuple[Tensor, int]]] = field(default_factory=dict)

    def begin_pass(self) -> None:
        """Open a new forward pass."""
        self._read.append(0)
        self.full.append(0)

    def add_pass(self, read: int | Tensor, full: int, windowed: int = 0) -> None:
        """Add a whole forward pass, in bytes; `read` as a number or as a () int64 tensor."""
        self._read.append(read)
        self.full.append(full)
        self.windowed += windowed

    def add_prefill(self, read: int | Tensor, full: int, windowed: int = 0) -> None:
        """Add a whole pass of the question's prefill; see `add_pass`."""
        self.add_pass(read, full, windowed)
        self.num_prefills = self.num_passes

    def count(
        self, layer: LayerCache, selection: Selection | DeviceSelection | FullSelection
    ) -> None:
        """Add one layer's reads to the open pass."""
        vector_bytes = layer.keys.shape[2] * layer.keys.element_size()
        if layer.window is not None:
            self.windowed += layer.constant_vectors * vector_bytes
            return
        vectors = layer.constant_vectors + selection.centroids_read
        if isinstance(selection, DeviceSelection):  # added up when somebody asks
            counts = (selection.attended.counts, 2 * vector_bytes)
            self._listed.setdefault(self.num_passes - 1, []).append(counts)
        else:
            vectors += 2 * selection.num_tokens
        self._read[-1] += vectors * vector_bytes
        self.full[-1] += layer.full_vectors * vector_bytes

    @property
    def num_passes(self) -> int:
        """Forward passes begun."""
        return len(self._read)

    @property
    def read(self) -> list[int]:
        """Bytes read by each pass; may wait for the GPU."""
        return [self._settle(index) for index in range(self.num_passes)]

    @property
    def bytes_read(self) -> int:
        """Bytes of document cache read in all passes, windows included; may wait for the GPU."""
        return sum(self.read) + self.windowed

    def share(self, start: int = 0, end: int | None = None) -> float:
        """Bytes read over full attention's bytes, in passes start to end.

        Returns: 0.0 for no pass; 1.0 where all layers have a sliding window, which is read whole.
        """
        if not (full := self.full[start:end]):
            return 0.0
        read = sum(self._settle(index) for index in range(self.num_passes)[start:end])
        return read / sum(full) if sum(full) else 1.0

    def share_of(self, index: int) -> float:
        """Bytes read over full attention's bytes, in one pass; 1.0 where that reads nothing."""
        full = self.full[index]
        return self._settle(index) / full if full else 1.0

    def settle(self) -> None:
        """Fetch what is still on a GPU, at a time at which nobody has to wait for that."""
        for index in range(self.num_passes):
            self._settle(index)

    def _settle(self, index: int) -> int:
        """Bytes read in a pass, after waiting, once, for what is still being counted."""
        settled = int(self._read[index])
        if listed := self._listed.pop(index, None):
            counts = torch.cat([counts for counts, _ in listed]).tolist()
            token_bytes = [num_bytes for counts, num_bytes in listed for _ in range(len(counts))]
            settled += sum(map(mul, counts, token_bytes))
        self._read[index] = settled
        return settled


def divide_prefill_budget(document: DocumentCache, budget: float) -> tuple[int, ...]:
    """Divide the budget of a question's prefill among the layers.

    Every layer reads its sinks, tail, streaming heads and centroids; what the budget leaves beside
    them is divided as calibration measured it, so that a question of any length reads what was
    asked for.

    Args:
        document: calibrated with a split among layers.
        budget: share of the bytes of the budgeted layers, in (0, 1).
    Returns: by layer, clustered keys and values to read over all heads, and level-2 centroids too
        with two levels of lookup; 0 for a layer without clusters.
    """
    capacities = document.clustered_vectors
    shares = document.curves.split.at(budget)
    wanted = [share * most for share, most in zip(shares, capacities, strict=True)]
    total = budget * document.full_vectors - document.fixed_vectors
    return _scaled(wanted, capacities, max(0.0, total))


def _scaled(wanted: Sequence[float], capacities: Sequence[int], total: float) -> tuple[int, ...]:
    """Scale amounts so that together they are `total`, none of them more than its capacity."""
    factor = 1.0
    for _ in range(len(wanted) + 1):  # once, and again for each layer that turns out to be full
        amounts = [min(part * factor, most) for part, most in zip(wanted, capacities, strict=True)]
        open_sum = sum(
            part * factor for part, most in zip(wanted, capacities, strict=True)
            if part * factor < most
        )  # fmt: skip
        missing = total - sum(amounts)
        if open_sum == 0 or abs(missing) < 1:
            break
        factor *= max(0.0, 1 + missing / open_sum)
    return tuple(round(amount) for amount in amounts)


class BudgetController:
    """Cluster attention for decoding whose thresholds follow what the question has read so far.

    A calibrated curve holds for the mean of its probes; one question's answer may lie well off it.
    The mean share over the decoding passes, not each pass alone, is held to the budget.

    What a pass has read is known two passes later: a pass may be launched while the one before it
    is still computed, and must not depend on whether it was.

    Args:
        curve: calibrated for decoding.
        budget: share of the cache's bytes, in (0, 1).
        attention: from thresholds to the attention that applies them.
        meter: counts the question's passes; the first ones are its prefill.
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
        self._aimed = self._loaded = 0.0  # sums over the decoding passes whose reads are known
        self._open_aims: deque[float] = deque()  # of those whose reads are not known yet
        self._attention = attention(READ_ALL)
        self._thresholds = READ_ALL

    def attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        """Attend to what this pass may read; a new pass takes new thresholds."""
        if self._is_new_pass:
            self._attention = self._attention_for(self.pass_thresholds())
        return self._attention.attend(lookup, layer)

    def pass_thresholds(self) -> Thresholds:
        """The thresholds of the present pass, the last one that the meter has begun."""
        while self._is_new_pass:
            self._thresholds = self.next_thresholds()
        return self._thresholds

    @property
    def _is_new_pass(self) -> bool:
        return self._num_passes < self._meter.num_passes - self._meter.num_prefills

    def next_thresholds(self) -> Thresholds:
        """Take the thresholds of the next pass; to be called once before each pass."""
        if len(self._open_aims) > LAG:
            known = self._num_passes - len(self._open_aims)
            self._loaded += self._meter.share_of(self._meter.num_prefills + known)
            self._aimed += self._open_aims.popleft()
        aim = self._aim()
        self._num_passes += 1
        self._open_aims.append(aim)
        return self._curve.at(aim)

    def _aim(self) -> float:
        """The share to ask the curve for, so that the mean over the passes meets the budget."""
        if self._aimed == 0:
            return self._budget
        bias = self._loaded / self._aimed  # of the curve, on this question
        expected = self._loaded + bias * sum(self._open_aims)
        left = self._budget * (self._num_passes + 1) - expected
        return min(max(left, self._budget / SWING), self._budget * SWING) / bias


@dataclass(frozen=True)
class BudgetReport:
    """Shares of the document cache's bytes per generated token.

    Attributes:
        requested: the share that was asked for.
        applied: the share that was aimed at: the request, or the floor if that is higher.
        loaded: the share that was read, centroids included.
        loaded_prefill, loaded_decode: the same, for the question's prefill and for decoding apart.
        raised: whether the request was below the floor.
        tolerance: of the loss, where the document was to choose its budget, which is `requested`.
        predicted_loss: what calibration found the applied budget to lose on probes, against
            `exact`; None where it is not known.
    """

    requested: float
    applied: float
    loaded: float
    loaded_prefill: float
    loaded_decode: float
    raised: bool
    tolerance: float | None = None
    predicted_loss: float | None = None


def report_budget(
    meter: ReadMeter,
    requested: float,
    applied: float,
    tolerance: float | None = None,
    predicted_loss: float | None = None,
) -> BudgetReport:
    """Say what a question read, in all its passes; the rest as of `BudgetReport`."""
    return BudgetReport(
        requested=requested,
        applied=applied,
        loaded=round(meter.share(), 4),
        loaded_prefill=round(meter.share(0, meter.num_prefills), 4),
        loaded_decode=round(meter.share(meter.num_prefills), 4),
        raised=applied > requested,
        tolerance=tolerance,
        predicted_loss=predicted_loss,
    )
