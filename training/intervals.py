"""How sure shares, means and differences between two methods are: 95 % intervals."""

from collections import Counter
from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev

_Z = 1.96  # of the normal distribution's middle 95 %


def wilson(right: int, total: int) -> tuple[float, float]:
    """Wilson's 95 % interval for a share; (0, 1) without questions."""
    if total == 0:
        return 0.0, 1.0
    share, square = right / total, _Z * _Z / total
    middle = (share + square / 2) / (1 + square)
    spread = _Z * sqrt(share * (1 - share) / total + square / (4 * total)) / (1 + square)
    return max(0.0, middle - spread), min(1.0, middle + spread)


def normal(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean of two scores or more in [0, 1], cut off at 0 and 1."""
    spread = _Z * stdev(values) / sqrt(len(values))
    return max(0.0, fmean(values) - spread), min(1.0, fmean(values) + spread)


def paired_wilson(one: Sequence[int], other: Sequence[int]) -> tuple[float, float]:
    """A 95 % interval for how much more often one method is right on the same questions.

    Args:
        one, other: whether each answered each question right, in the same order.
    Raises: ValueError if they were not asked equally many questions, or none.
    Source: Newcombe 1998, https://doi.org/10.1002/(SICI)1097-0258(19981130)17:22%3C2635::AID-SIM954%3E3.0.CO;2-C,
        method 10: Wilson's intervals of both shares, joined by how the answers agree.
    """
    total = len(one)
    if total == 0 or total != len(other):
        raise ValueError("a paired interval needs two answers to each of the same questions")
    counts = Counter((bool(a), bool(b)) for a, b in zip(one, other, strict=True))
    both, neither = counts[True, True], counts[False, False]
    first, second = counts[True, False], counts[False, True]
    agreement = _agreement(both, first, second, neither)
    (low_one, high_one), (low_other, high_other) = (
        wilson(both + first, total), wilson(both + second, total)
    )  # fmt: skip
    share_one, share_other = (both + first) / total, (both + second) / total
    below = _joined(share_one - low_one, high_other - share_other, agreement)
    above = _joined(high_one - share_one, share_other - low_other, agreement)
    difference = share_one - share_other
    return difference - below, difference + above


def paired_normal(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """A 95 % interval for the mean difference of two methods' scores of the same questions.

    Raises: ValueError if they were not asked equally many questions, or fewer than two.
    """
    if len(one) < 2 or len(one) != len(other):
        raise ValueError("a paired interval needs two scores of each of the same questions")
    differences = [a - b for a, b in zip(one, other, strict=True)]
    spread = _Z * stdev(differences) / sqrt(len(differences))
    return fmean(differences) - spread, fmean(differences) + spread


def _joined(one: float, other: float, agreement: float) -> float:
    """How far a difference reaches whose parts reach so far, and agree so much."""
    return sqrt(max(0.0, one * one - 2 * agreement * one * other + other * other))


def _agreement(both: int, first: int, second: int, neither: int) -> float:
    """The correlation of two methods' right answers, corrected for continuity."""
    rows = (both + first) * (second + neither) * (both + second) * (first + neither)
    if rows == 0:
        return 0.0
    excess = both * neither - first * second
    corrected = max(0.0, excess - (both + first + second + neither) / 2) if excess > 0 else excess
    return float(corrected / sqrt(rows))
