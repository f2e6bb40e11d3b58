"""Budgets: the share of a document cache's bytes that may be read per token, and what loads it.

A budget becomes thresholds through a curve that was calibrated on the document.
"""

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from common.errors import InvalidInput

FAST, BALANCED, EXACT = 0.05, 0.15, 1.0
NAMES = {"fast": FAST, "balanced": BALANCED, "exact": EXACT}
AUTO, TOLERANCE = "auto", 0.02


@dataclass(frozen=True)
class AutoBudget:
    """The smallest budget that is predicted to lose no more than a tolerance, on each document.

    Attributes:
        tolerance: share of the answers that may be others than at `exact`, in [0, 1].
    """

    tolerance: float = TOLERANCE


Budget = float | AutoBudget


def parse_budget(value: str | float) -> float:
    """Turn "fast", "balanced", "exact" or a number in (0, 1] into a share of the cache's bytes.

    Raises: InvalidInput for anything else.
    """
    if isinstance(value, str) and value in NAMES:
        return NAMES[value]
    try:
        share = float(value)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise InvalidInput(
            f"The budget '{value}' is none of fast, balanced, exact or a number in (0, 1].",
            param="budget",
        )
    return share


@dataclass(frozen=True)
class Thresholds:
    """A cluster is selected if its aggregated log score reaches the level's threshold, in nats.

    Attributes:
        level1, level2: of coarse and fine clusters; -inf at both levels reads the whole cache
            without a lookup (`READ_ALL`).
    """

    level1: float
    level2: float

    @property
    def reads_all(self) -> bool:
        """Whether everything is attended to, so that no lookup is needed."""
        return self.level1 == self.level2 == -math.inf


READ_ALL = Thresholds(-math.inf, -math.inf)


@dataclass(frozen=True)
class BudgetCurve:
    """Points (loaded share, thresholds) with strictly rising shares.

    Attributes:
        shares: measured share of the document cache's bytes that is read, centroids included.
        thresholds: the thresholds that load each share.
    """

    shares: tuple[float, ...]
    thresholds: tuple[Thresholds, ...]

    @property
    def floor(self) -> float:
        """The least share that can be asked for."""
        return self.shares[0] if self.shares else 1.0

    def at(self, budget: float) -> Thresholds:
        """Interpolate, in the logarithm of the share; `READ_ALL` past the last point."""
        if not self.shares or budget > self.shares[-1]:
            return READ_ALL
        right = bisect_left(self.shares, budget)
        if right == 0:
            return self.thresholds[0]
        low, high = self.shares[right - 1], self.shares[right]
        part = math.log(budget / low) / math.log(high / low)
        below, above = self.thresholds[right - 1], self.thresholds[right]
        return Thresholds(
            level1=below.level1 + part * (above.level1 - below.level1),
            level2=below.level2 + part * (above.level2 - below.level2),
        )


@dataclass(frozen=True)
class LayerSplit:
    """How the budget of a question's prefill is divided among the layers.

    Attributes:
        shares: budgets, strictly rising.
        layers: for each budget, the share of its clustered tokens that each layer read on average
            in calibration; 0 for a layer without clusters.

    Both are empty for a document without clusters, and for one that an earlier version has read:
    its question's prefill keeps to the thresholds of the prefill's curve.
    """

    shares: tuple[float, ...] = ()
    layers: tuple[tuple[float, ...], ...] = ()

    def at(self, budget: float) -> tuple[float, ...]:
        """Interpolate linearly, by layer; only where there are budgets."""
        right = min(bisect_left(self.shares, budget), len(self.shares) - 1)
        left = max(0, right - 1)
        span = self.shares[right] - self.shares[left]
        part = min(1.0, max(0.0, (budget - self.shares[left]) / span)) if span else 1.0
        return tuple(
            low + part * (high - low)
            for low, high in zip(self.layers[left], self.layers[right], strict=True)
        )


@dataclass(frozen=True)
class BudgetLosses:
    """How much budgets were found to lose on probes, against `exact`.

    Attributes:
        budgets: strictly rising; larger ones than the last lose no more than it.
        losses: for each, what it loses at most: the upper end of the one-sided 95 % interval of
            the mean over probes, in [0, 1].

    Both are empty for a document without a choice, and for one that an earlier version has read.
    """

    budgets: tuple[float, ...] = ()
    losses: tuple[float, ...] = ()

    def choose(self, tolerance: float) -> float:
        """Return the smallest budget that loses at most so much, as all larger ones do.

        Returns: `EXACT` where none is known.
        """
        chosen = EXACT
        for budget, loss in zip(reversed(self.budgets), reversed(self.losses), strict=True):
            if loss > tolerance:
                break
            chosen = budget
        return chosen

    def at(self, budget: float) -> float | None:
        """The predicted loss of a budget: that of the next smaller one that was tried.

        Returns: 0.0 for `EXACT`; None for what is smaller than all, or where none was tried.
        """
        if budget >= EXACT:
            return 0.0
        place = bisect_right(self.budgets, budget)
        return self.losses[place - 1] if place else None


@dataclass(frozen=True)
class BudgetCurves:
    """What calibration measured on probe questions.

    Attributes:
        prefill: for the question's prefill, whose tokens share a selection.
        decode: for a token that is decoded.
        split: how the prefill's budget is divided among layers.
        losses: what budgets lose.
    """

    prefill: BudgetCurve
    decode: BudgetCurve
    split: LayerSplit = LayerSplit()
    losses: BudgetLosses = BudgetLosses()

    @property
    def floor(self) -> float:
        """The least budget that both can keep."""
        return max(self.prefill.floor, self.decode.floor)


NO_CURVES = BudgetCurves(BudgetCurve((), ()), BudgetCurve((), ()))  # every budget reads all
