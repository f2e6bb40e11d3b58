"""What a table of cells says, on one made by hand."""

import pytest

from bench.accuracy.plan_summary import summarise
from bench.plots import draw_heads


def row(method, ratio, found, length=4096, variant="", seed=None):
    return {
        "method": method,
        "ratio": ratio,
        "variant": variant,
        "seed": seed,
        "document_tokens": length,
        "exact_match": found,
    }


ROWS = [
    row("all", 1.0, 0.8),
    row("all", 1.0, 0.5, length=8192),
    row("streaming", 0.0, 0.1),
    row("streaming", 0.0, 0.05, length=8192),
    *(row("duo", ratio, 0.8) for ratio in (0.05, 0.25, 0.5)),
    row("duo", 0.05, 0.4, length=8192),
    row("duo", 0.25, 0.495, length=8192),
    row("duo", 0.5, 0.5, length=8192),
    row("duo", 0.25, 0.2, variant="without compensation"),
    row("duo", 0.25, 0.3, length=8192, variant="without compensation"),
    *(row("random", 0.25, found, seed=seed) for seed, found in enumerate((0.2, 0.6))),
    *(row("random", 0.25, found, length=8192, seed=seed) for seed, found in enumerate((0.1, 0.2))),
]


def test_shares_are_of_full_attention_at_the_same_length():
    shares = summarise(ROWS)["relative_exact_match"]
    assert shares["duo"]["5"] == {
        "4096": 1.0,
        "8192": 0.8,
        "worst": 0.8,
        "pooled": pytest.approx(1.2 / 1.3),
    }
    assert shares["random"]["25"]["4096"] == pytest.approx(0.5)  # the mean of its seeds


def test_the_smallest_ratio_keeps_its_share_at_every_length():
    assert summarise(ROWS)["smallest_ratio_that_keeps"] == {"duo": 0.25, "random": 1.0}


def test_random_is_as_far_below_as_where_it_is_best():
    assert summarise(ROWS)["random_below_full_at_25"] == pytest.approx(0.5)


def test_variants_stand_apart():
    variants = summarise(ROWS)["variants_at_25"]
    assert variants["without compensation"]["duo"]["worst"] == pytest.approx(0.25)


def test_the_plot_has_a_panel_a_length_and_one_of_every_head():
    controls = [row(name, 0.25, 0.3, at) for name in ("razor", "zigzag") for at in (4096, 8192)]
    alone = {
        "document_tokens": 8192,
        "heads": [{"layer": n, "head": m, "cost": 0.1 * m} for n in (0, 1) for m in (0, 1, 2)],
    }
    figure = draw_heads({"rows": [*ROWS, *controls], "alone": alone})
    titles = [panel.get_title() for panel in figure.axes]
    assert titles == ["4,096 tokens", "8,192 tokens", "cost of one streaming head\n8,192 tokens"]
    lines = {line.get_label() for line in figure.axes[0].lines}
    assert {"duo", "razor", "zigzag", "all heads", "streaming heads"} <= lines
