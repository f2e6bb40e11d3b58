"""`select_tokens` in Triton: denominators, aggregated scores of clusters, and the list of tokens.

Three launches without host synchronisation, and one more where the threshold is to be found. Scores
are computed twice rather than stored: a block of 64 tokens has four times as many scores as the
centroids have elements. Logarithms are to base 2.
"""

from engine.kernels.prefill.select_tokens import SelectedTokens, SelectTokensInputs
from engine.kernels.prefill.triton.select_tokens.aggregate import (
    aggregate_scores,
    default_aggregate_tiles,
)
from engine.kernels.prefill.triton.select_tokens.denominator import (
    default_denominator_tiles,
    partial_denominators,
)
from engine.kernels.prefill.triton.select_tokens.find_threshold import find_threshold_and_count
from engine.kernels.prefill.triton.select_tokens.list_tokens import list_tokens
from engine.kernels.prefill.triton.select_tokens.tiles import SelectTiles


def select_tokens_triton(
    inputs: SelectTokensInputs,
    *,
    denominator_tiles: SelectTiles | None = None,
    aggregate_tiles: SelectTiles | None = None,
) -> SelectedTokens:
    """Launch `select_tokens` in Triton.

    Args:
        inputs: as of `select_tokens`; nothing is checked.
        denominator_tiles: of the first launch; None for the default.
        aggregate_tiles: of the others; None for the default.
    Returns: as `select_tokens`.
    """
    rows = inputs.query.shape[1]
    denominator_tiles = denominator_tiles or default_denominator_tiles(rows)
    aggregate_tiles = aggregate_tiles or default_aggregate_tiles(rows)
    denominators, histogram = partial_denominators(inputs, denominator_tiles)
    scores, tile_tokens = aggregate_scores(inputs, denominators, histogram, aggregate_tiles)
    if (threshold := inputs.threshold) is None:
        threshold = find_threshold_and_count(
            inputs, histogram, scores, tile_tokens, aggregate_tiles
        )
    tokens, counts = list_tokens(inputs, scores, tile_tokens, threshold, aggregate_tiles)
    return SelectedTokens(tokens, counts, scores)
