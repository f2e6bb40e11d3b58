"""`choose_tokens` in Triton: the mass of each row, the votes for each cluster, the tokens chosen.

Three launches, no host synchronisation. Scores are computed twice rather than stored: a block of 64
tokens has four times as many scores as the centroids have elements. Logarithms are to base 2.
"""

from torch import Tensor

from common.errors import InvalidInput
from engine.kernels.prefill.select_tokens import Chosen
from engine.kernels.prefill.triton.select_tokens.list import list_tokens
from engine.kernels.prefill.triton.select_tokens.mass import fitting_mass, partial_mass
from engine.kernels.prefill.triton.select_tokens.question import Question
from engine.kernels.prefill.triton.select_tokens.tiles import Tiles
from engine.kernels.prefill.triton.select_tokens.vote import AGGREGATIONS, fitting_vote, vote

__all__ = [
    "Question",
    "Tiles",
    "choose_tokens_triton",
    "fitting_mass",
    "fitting_vote",
    "list_tokens",
    "partial_mass",
    "vote",
]


def choose_tokens_triton(
    query: Tensor,
    centroids: Tensor,
    offsets: Tensor,
    threshold: Tensor,
    extra_lse: Tensor,
    near: Tensor,
    *,
    num_tokens: int,
    group: int,
    how: str,
    scale: float,
    softcap: float | None,
    mass_tiles: Tiles | None = None,
    vote_tiles: Tiles | None = None,
) -> Chosen:
    """See `choose_tokens`."""
    if how not in AGGREGATIONS:
        raise InvalidInput(f"Aggregation '{how}' is none of {', '.join(AGGREGATIONS)}.")
    question = Question(
        query, centroids, offsets, threshold, extra_lse, near, group, how, scale, softcap
    )
    mass_tiles = mass_tiles or fitting_mass(query.shape[1])
    vote_tiles = vote_tiles or fitting_vote(query.shape[1])
    mass = partial_mass(question, mass_tiles)
    votes, tile_tokens = vote(question, mass, vote_tiles)
    tokens, counts = list_tokens(question, votes, tile_tokens, num_tokens, vote_tiles)
    return Chosen(tokens, counts, votes)
