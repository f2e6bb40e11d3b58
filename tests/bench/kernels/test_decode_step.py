"""What the decode benchmark measures: that thresholds load what was asked for, and what is told."""

import pytest

from bench.kernels.decode import check, summary
from bench.kernels.decode_step import bytes_needed, draw_step, recall, with_sparsity
from bench.kernels.layer import Shape, draw_layer
from bench.plots import draw_kernels_decode as draw

SHAPE = Shape(1500, num_heads=8, kv_heads=4, head_dim=16, num_anchors=13, upper_share=0.02)


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize(("batch", "streaming"), [(1, 0), (3, 2)])
def test_a_step_loads_the_share_it_was_asked_for(levels: int, batch: int, streaming: int) -> None:
    layer = draw_layer(SHAPE, 7, "cpu")
    step = draw_step(SHAPE, layer, 8, batch=batch, levels=levels, streaming=streaming)
    sizes = layer.offsets[: 4 - streaming].diff()
    for percent in (70, 90):
        found, _ = check(with_sparsity(step, percent))
        loaded = float((found.selected * sizes).sum() / (batch * sizes.sum()))
        assert loaded == pytest.approx(1 - percent / 100, abs=0.02)


def test_bytes_are_those_of_what_is_read() -> None:
    layer = draw_layer(SHAPE, 7, "cpu")
    step = with_sparsity(draw_step(SHAPE, layer, 8, batch=1, levels=1, streaming=0), 90)
    found = step.define()
    vectors = 2 * (4 * 13 + 4 * 96 + int(found.read_counts[0].sum())) + 4 * SHAPE.num_clusters
    assert bytes_needed(step, found) == vectors * 16 * 2


def test_recall_is_told_in_tokens() -> None:
    layer = draw_layer(SHAPE, 7, "cpu")
    one, two = (
        with_sparsity(draw_step(SHAPE, layer, 8, batch=1, levels=levels, streaming=0), 90).define()
        for levels in (1, 2)
    )
    sizes = layer.offsets.diff()
    assert recall(one, one, sizes) == 1.0
    assert 0.3 < recall(one, two, sizes) < 1.0


def test_the_summary_holds_the_figures_that_are_asked_for() -> None:
    rows = [
        {
            "context": 524_288,
            "batch": 1,
            "levels": levels,
            "streaming_heads": streaming,
            "sparsity": 90,
            "step": {"p50": 90.0},
            "lookup": {"p50": 30.0 / levels},
            "speedup": 5.5,
            "floor_share": 0.7,
            "centroids_kept": 0.2,
            "recall": 0.9,
        }
        for levels in (1, 2)
        for streaming in (0, 4)
    ]
    found = summary(rows)
    assert found["speedup_512k_90"] == found["speedup_512k_90_half"] == 5.5
    assert found["lookup_speedup_512k_90"] == 2.0
    assert found["recall_512k_90"] == 0.9
    figure = draw({"rows": rows, "about": {"gpu": "a GPU"}})
    assert len(figure.axes[0].lines) == 4  # three curves, and that of full attention
