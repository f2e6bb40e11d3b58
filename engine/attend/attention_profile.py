"""Where in the whole document the model attended: its attention mass in equal spans of text."""

import torch
from torch import Tensor

from engine.document.cache import DocumentCache

NUM_BINS = 256


def profile_attention(
    document: DocumentCache, mass: Tensor, num_bins: int = NUM_BINS
) -> tuple[float, ...]:
    """Return which share of the attention mass each part of a document got.

    Args:
        mass: attention mass per document token (tokens,).
        num_bins: equal spans of characters into which the document's text is divided.
    Returns: `num_bins` shares that add up to 1, rounded to 5 decimal places; () if there is no mass
        on tokens of the text.
    """
    inside, middles = document.middles_of_tokens
    mass = mass.cpu()[inside]
    total = float(mass.sum())
    if total <= 0.0 or not document.text:
        return ()
    bins = (middles * num_bins // len(document.text)).clamp(0, num_bins - 1)
    shares = torch.zeros(num_bins).index_add_(0, bins, mass) / total
    return tuple(round(share, 5) for share in shares.tolist())
