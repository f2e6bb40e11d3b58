"""What the rows of head plans say: shares of full attention's exact match, and the bars."""

from collections.abc import Mapping, Sequence
from math import nan
from statistics import fmean
from typing import Any

Row = Mapping[str, Any]
KEPT = 0.98


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """Per method and ratio the share of full attention's exact match, and what follows from it.

    Each share is given at each length, its least over the lengths as `worst`, and over all
    questions as `pooled`; a random plan's is the mean over its seeds.
    """
    plain = [row for row in rows if not row["variant"]]
    lengths = sorted({row["document_tokens"] for row in rows})
    full = {
        row["document_tokens"]: row["exact_match"] or nan for row in plain if row["method"] == "all"
    }
    names = dict.fromkeys(row["method"] for row in plain)
    shares = {
        name: {
            percent(ratio): _shares(rows, full, name, ratio)
            for ratio in sorted({row["ratio"] for row in plain if row["method"] == name})
        }
        for name in names
    }
    methods = [name for name in names if name not in ("all", "streaming", "random")]
    variants = dict.fromkeys(row["variant"] for row in rows if row["variant"])
    return {
        "document_tokens": lengths,
        "full_exact_match": full,
        "relative_exact_match": shares,
        "smallest_ratio_that_keeps": {
            name: _smallest_kept(shares[name]) for name in [*methods, "random"]
        },
        "kept": KEPT,
        "random_below_full_at_25": 1 - max(shares["random"]["25"].values()),
        "variants_at_25": {
            variant: {
                name: _shares(rows, full, name, 0.25, variant)
                for name in methods
                if any(row["method"] == name and row["variant"] == variant for row in rows)
            }
            for variant in variants
        },
    }


def percent(ratio: float) -> str:
    """A ratio as a name."""
    return f"{100 * ratio:g}"


def _shares(
    rows: Sequence[Row], full: Mapping[int, float], method: str, ratio: float, variant: str = ""
) -> dict[str, float]:
    found = {
        length: fmean(
            row["exact_match"]
            for row in rows
            if (row["method"], row["ratio"], row["variant"], row["document_tokens"])
            == (method, ratio, variant, length)
        )
        for length in full
    }
    by_length = {str(length): share / full[length] for length, share in found.items()}
    pooled = fmean(found.values()) / fmean(full.values())
    return {**by_length, "worst": min(by_length.values()), "pooled": pooled}


def _smallest_kept(shares: Mapping[str, Mapping[str, float]]) -> float:
    """The least ratio from which on every length keeps its share; 1 if only all heads do."""
    smallest = 1.0
    for name in sorted(shares, key=float, reverse=True):
        if not shares[name]["worst"] >= KEPT:
            break
        smallest = float(name) / 100
    return smallest
