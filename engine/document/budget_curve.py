"""From a budget to the thresholds that load it, as calibrated on the document."""

import math
from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """A cluster is kept if its aggregated log score reaches the level's threshold, in nats."""

    level1: float
    level2: float


@dataclass(frozen=True)
class BudgetCurve:
    """Points (loaded share, thresholds) with strictly rising shares.

    Attributes:
        shares: measured share of the document cache's bytes that is read, centroids included.
        thresholds: what loads it.
    """

    shares: tuple[float, ...]
    thresholds: tuple[Thresholds, ...]

    @property
    def floor(self) -> float:
        """The least share that can be asked for."""
        return self.shares[0] if self.shares else 1.0

    def at(self, budget: float) -> Thresholds | None:
        """Interpolate, in the logarithm of the share; None (everything) past the last point."""
        if not self.shares or budget > self.shares[-1]:
            return None
        right = bisect_left(self.shares, budget)
        if right == 0:
            return self.thresholds[0]
        low, high = self.shares[right - 1], self.shares[right]
        part = math.log(budget / low) / math.log(high / low)
        a, b = self.thresholds[right - 1], self.thresholds[right]
        return Thresholds(
            level1=a.level1 + part * (b.level1 - a.level1),
            level2=a.level2 + part * (b.level2 - a.level2),
        )


@dataclass(frozen=True)
class BudgetCurves:
    """One curve for the question's prefill, where its tokens share a selection, one for decode."""

    prefill: BudgetCurve
    decode: BudgetCurve

    @property
    def floor(self) -> float:
        """The least budget that both can keep."""
        return max(self.prefill.floor, self.decode.floor)


EVERYTHING = BudgetCurves(BudgetCurve((), ()), BudgetCurve((), ()))
