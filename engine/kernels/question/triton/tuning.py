"""How the launches of a captured prefill divide their work.

Tiles are those of a question that is launched about one document. How many programs there are must
not depend on the document, so it is chosen for the longest one.
"""

from dataclasses import dataclass

from engine.kernels.prefill.triton.attend_tokens.tiles import AttendTiles, default_tiles
from engine.kernels.prefill.triton.select_tokens.aggregate import default_aggregate_tiles
from engine.kernels.prefill.triton.select_tokens.denominator import (
    default_denominator_tiles,
    even_splits,
)
from engine.kernels.prefill.triton.select_tokens.tiles import SelectTiles
from engine.kernels.question.sizes import QuestionSizes
from engine.kernels.shared.sizes import ceil_div, tile_bytes
from engine.kernels.shared.triton.accumulate_attention_mass import PROGRAMS


@dataclass(frozen=True)
class QuestionTuning:
    """Tiles of the launches.

    Attributes:
        denominator, aggregate: of the lookup.
        attend: of attention to what it selects; keys are not gathered.
        mass_programs: that add up attention mass, over all heads.
    """

    denominator: SelectTiles
    aggregate: SelectTiles
    attend: AttendTiles
    mass_programs: int = PROGRAMS

    def num_splits(self, sizes: QuestionSizes, heads: int) -> int:
        """Return how many splits the centroids of each of a layer's retrieval heads have."""
        tiles = max(1, ceil_div(sizes.clusters, self.denominator.clusters))
        row_tiles = ceil_div(sizes.rows, self.denominator.rows)
        return even_splits(heads * row_tiles, tiles, self.denominator.programs)

    def num_tiles(self, sizes: QuestionSizes) -> int:
        """Return how many tiles the clusters of the longest document's head have."""
        return max(1, ceil_div(sizes.clusters, self.aggregate.clusters))


def default_question_tuning(sizes: QuestionSizes, element_size: int) -> QuestionTuning:
    """Choose tiles for a question of so many tokens.

    Args:
        sizes: of the prefill.
        element_size: bytes of a number of a key.
    """
    return QuestionTuning(
        default_denominator_tiles(sizes.rows),
        default_aggregate_tiles(sizes.rows),
        default_tiles(sizes.rows, tile_bytes(sizes.head_dim, element_size)),
    )
