"""Budgets: the share of the document's cache that may be read for a token."""

import math

from common.errors import InvalidInput

FAST, BALANCED, EXACT = 0.05, 0.15, 1.0
NAMES = {"fast": FAST, "balanced": BALANCED, "exact": EXACT}


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
