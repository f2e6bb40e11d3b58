"""Where the quotes of an answer stand: of all places with their text, those attended to most."""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.decode.answer import Quote
from engine.decode.quote_decoder import QuoteCandidates
from engine.document.cache import DocumentCache

AROUND_CHARS = 160  # on either side of a place, where attention speaks for it too


def place_quotes(
    document: DocumentCache, mass: Tensor, quotes: Sequence[QuoteCandidates]
) -> tuple[Quote, ...]:
    """Choose a place for each quote: the one around which most attention mass lies, or the first.

    Args:
        mass: attention mass per document token (tokens,) on the CPU.
    """
    offsets = document.offsets.cpu().long()
    inside = (offsets[:, 1] > offsets[:, 0]).nonzero()[:, 0]
    token_starts = offsets[inside, 0].contiguous()
    summed = torch.cat((torch.zeros(1), mass[inside].cumsum(0)))
    found = []
    for quote in quotes:
        spans = torch.tensor(quote.spans)  # (places, 2)
        first = torch.searchsorted(token_starts, (spans[:, 0] - AROUND_CHARS).contiguous())
        last = torch.searchsorted(token_starts, (spans[:, 1] + AROUND_CHARS).contiguous())
        start, end = quote.spans[int((summed[last] - summed[first]).argmax())]
        found.append(
            Quote(
                text=document.text[start:end],
                page=document.page_of(start),
                start_char=start,
                end_char=end,
                answer_start=quote.answer_start,
                answer_end=quote.answer_end,
            )
        )
    return tuple(found)
