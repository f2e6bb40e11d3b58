"""Keeping decoding to its budget: each pass aims at what the passes before it left over."""

from collections.abc import Callable

from engine.attend.clusters import AttendedClusters, ClusterAttention
from engine.attend.lookup import Lookup
from engine.attend.read_meter import ReadMeter
from engine.document.budget_curve import BudgetCurve, Thresholds
from engine.document.cache import LayerCache

SWING = 2.0  # a pass aims at no less than budget / SWING and at no more than budget x SWING


class BudgetController:
    """A reach for decoding whose thresholds follow what the question has loaded so far.

    A calibrated curve holds for the mean of its probes; one question's answer may lie well off it.
    The mean share over the decoding passes, not each pass alone, is held to the budget.

    Args:
        curve: calibrated for decoding.
        budget: share of the cache's bytes, in (0, 1).
        reach: how far thresholds reach; None reaches everything.
        meter: counts the question's passes; the first is its prefill.
    """

    def __init__(
        self,
        curve: BudgetCurve,
        budget: float,
        reach: Callable[[Thresholds | None], ClusterAttention],
        meter: ReadMeter,
    ) -> None:
        self._curve = curve
        self._budget = budget
        self._reach_at = reach
        self._meter = meter
        self._num_aims = 0
        self._aimed = self._loaded = 0.0  # sums over the decoding passes
        self._reach = reach(None)

    def attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        """Attend to what this pass may load; a new pass takes a new aim."""
        while self._num_aims < self._meter.num_passes - 1:
            self._reach = self._reach_at(self.next_thresholds())
        return self._reach.attend(lookup, layer)

    def next_thresholds(self) -> Thresholds | None:
        """Take a new aim, once before each pass; None asks for everything."""
        done = self._num_aims
        if done > 0:
            self._loaded += self._meter.share(done, done + 1)
        aim = self._aim(done)
        self._num_aims += 1
        self._aimed += aim
        return self._curve.at(aim)

    def _aim(self, done: int) -> float:
        """What to ask the curve for, so that the mean over the decoding passes meets the budget."""
        if done == 0:
            return self._budget
        left = self._budget * (done + 1) - self._loaded
        wanted = min(max(left, self._budget / SWING), self._budget * SWING)
        return wanted * self._aimed / self._loaded  # the curve's bias on this question
