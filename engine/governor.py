"""Keeping decoding to its budget: each pass aims at what the passes before it left over."""

from engine.curve import BudgetCurve, Thresholds
from engine.document import LayerCache, LookupConfig
from engine.meter import Meter
from engine.reach import Everything, LookedUp, Reach, Reached
from engine.selection import Lookup

SWING = 2.0  # a pass aims at no less than budget / SWING and at no more than budget x SWING


class Governor:
    """A reach for decoding whose thresholds follow what the question has loaded so far.

    A calibrated curve holds for the mean of its probes; one question's answer may lie well off it.
    The mean share over the decoding passes, not each pass alone, is held to the budget.

    Args:
        curve: calibrated for decoding.
        budget: share of the cache's bytes, in (0, 1).
        config: how clusters are found.
        meter: counts the question's passes; the first is its prefill.
    """

    def __init__(
        self, curve: BudgetCurve, budget: float, config: LookupConfig, meter: Meter
    ) -> None:
        self._curve = curve
        self._budget = budget
        self._config = config
        self._meter = meter
        self._aims: list[float] = []
        self._reach: Reach = Everything()

    def attend(self, lookup: Lookup, layer: LayerCache) -> Reached:
        """Attend to what this pass may load; a new pass takes a new aim."""
        while len(self._aims) < self._meter.num_passes - 1:
            thresholds = self.next_thresholds()
            self._reach = LookedUp(thresholds, self._config) if thresholds else Everything()
        return self._reach.attend(lookup, layer)

    def next_thresholds(self) -> Thresholds | None:
        """Take a new aim, before a pass; None asks for everything."""
        self._aims.append(self._aim())
        return self._curve.at(self._aims[-1])

    def _aim(self) -> float:
        """What to ask the curve for, so that the mean over the decoding passes meets the budget."""
        done = len(self._aims)
        if done == 0:
            return self._budget
        loaded = [self._meter.share(index, index + 1) for index in range(1, done + 1)]
        left = self._budget * (done + 1) - sum(loaded)
        wanted = min(max(left, self._budget / SWING), self._budget * SWING)
        return wanted * sum(self._aims) / sum(loaded)  # the curve's bias on this question
