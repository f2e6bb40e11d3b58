"""Where in the whole document the model attended: its attention mass in equal spans of text."""

from torch import Tensor

from engine.document.cache import DocumentCache


def profile_attention(document: DocumentCache, mass: Tensor) -> tuple[float, ...]:
    """Return which share of the attention mass each part of a document got.

    Args:
        mass: attention mass per document token (tokens,).
    Returns: shares of `ATTENTION_BINS` equal spans of characters of the document's text, which add
        up to 1, rounded to 5 decimal places; () if there is no mass on tokens of the text.
    """
    inside, _ = document.middles_of_tokens
    mass = mass.cpu().index_select(0, inside)
    total = float(mass.sum())
    if total <= 0.0 or not document.text:
        return ()
    shares = document.token_bins.sums(mass) / total
    return tuple(round(share, 5) for share in shares.tolist())
