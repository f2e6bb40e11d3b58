"""Evidence: where in the document the model attended while it answered."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from common.passages import Passage, quote_of
from engine.attend.clusters import DeviceSelection, FullSelection, Lookup, Selection, gather_tokens
from engine.document.cache import DocumentCache, LayerCache
from engine.kernels.shared.accumulate_attention_mass import (
    AttentionMassInputs,
    accumulate_attention_mass,
)
from engine.kernels.shared.attend_keys import attention_weights

MAX_QUOTE_CHARS = 400
LEAST_SHARE, LEAST_LEXICAL = 0.02, 0.5  # of which a passage has one at least
# Fitted on questions about articles that readers are trained on: bench.accuracy.evidence --fit
ATTENTION_WEIGHT = 0.75  # of the root of a passage's share, beside its lexical score
QUOTED_WEIGHT = 0.1  # of a passage that the answer quotes


@dataclass(frozen=True)
class Evidence:
    """A passage that the model attended to.

    Attributes:
        quote: the passage's text.
        page: the page that it begins on, from 1; None for a format without pages.
        heading: text of the nearest heading above it; None where there is none.
        paragraph: number of its block (paragraph, list item, table row) below that heading, from
            1; None for a heading.
        start_char, end_char: its half-open span in the document's text.
        weight: its share of the attention mass on the document, sinks excluded.
        lexical: how well its words fit the question's, the best passage's being 1.
    """

    quote: str
    page: int | None
    start_char: int
    end_char: int
    weight: float
    heading: str | None = None
    paragraph: int | None = None
    lexical: float = 0.0


class AttentionMass:
    """Attention on each document token, summed over heads and over the tokens of the answer.

    Diffuse heads say little about where an answer comes from, so a head's weight on a token counts
    squared: one head that gives 0.9 to a token outweighs eighty that give it 0.1. Heads count by
    how much they retrieve, as calibration measured it.

    Args:
        document: whose tokens are attended to.
    """

    def __init__(self, document: DocumentCache, device: torch.device) -> None:
        self._mass = torch.zeros(document.num_tokens, dtype=torch.float32, device=device)
        self._ahead: Tensor | None = None  # the same with a pass that may turn out not to count
        self._num_sinks = document.num_sinks
        self._profile = document.profile

    def add(
        self,
        lookup: Lookup,
        layer: LayerCache,
        selection: Selection | DeviceSelection | FullSelection,
        lse: Tensor,
    ) -> None:
        """Add what the last token of this pass attends to in one layer.

        Args:
            lookup: the layer's rows.
            selection: the clustered tokens that were attended to.
            lse: log-sum-exp over everything attended to (kv_heads, group x tokens).
        """
        last = Lookup(
            _last_token(lookup.rows, lookup.group),
            lookup.group,
            self._weighted(_last_token(lse[..., None], lookup.group)[..., 0], lookup.layer_index),
            lookup.scale,
            lookup.softcap,
        )
        if isinstance(selection, FullSelection):
            self._spread(last, layer.keys, layer.positions)
            return
        if isinstance(selection, DeviceSelection):
            inputs = AttentionMassInputs(
                query=last.rows.contiguous(),
                lse=last.extra_lse.contiguous(),
                keys=layer.keys,
                positions=layer.positions,
                attended=selection.attended,
                num_anchors=layer.num_anchors,
                scale=last.scale,
                softcap=last.softcap,
            )
            accumulate_attention_mass(self._mass, inputs)
            return
        anchors = slice(0, layer.num_anchors)
        self._spread(last, layer.keys[:, anchors], layer.positions[:, anchors])
        for head, chosen in enumerate(selection.tokens):
            one = slice(head, head + 1)
            self._spread(
                Lookup(last.rows[one], last.group, last.extra_lse[one], last.scale, last.softcap),
                gather_tokens(layer.keys, layer, head, chosen),
                layer.positions[head, layer.num_anchors :].index_select(0, chosen)[None],
            )

    @cached_property
    def _log_weights(self) -> Tensor | None:
        """Of the heads, once they are needed: the kernels of batches have them already."""
        return None if self._profile is None else self._profile.log_weights(self._mass.device)

    def _weighted(self, lse: Tensor, layer: int) -> Tensor:
        """Raise the log-sum-exp (kv_heads, rows) so that squares count by their heads' weights."""
        if self._log_weights is None:
            return lse
        return lse - 0.5 * self._log_weights[layer, : len(lse), None]

    def head_weights(self, layer: int, num_heads: int) -> Tensor | None:
        """How much each of a layer's retrieval heads counts (heads,); None for all alike."""
        return None if self._log_weights is None else self._log_weights[layer, :num_heads].exp()

    def _spread(self, last: Lookup, keys: Tensor, positions: Tensor) -> None:
        weights = attention_weights(
            last.rows, keys, last.extra_lse, scale=last.scale, softcap=last.softcap
        )
        self.add_weights(weights, positions)

    def add_weights(self, weights: Tensor, positions: Tensor) -> None:
        """Add attention weights (kv_heads, rows, keys) on keys at positions (kv_heads, keys)."""
        squares = weights.square().sum(dim=1)  # (kv_heads, keys)
        self._mass.index_add_(0, positions.flatten().long(), squares.flatten())

    def add_places(self, mass: Tensor) -> None:
        """Add mass that was noted by place in the document (tokens,)."""
        self._mass += mass

    def add_at(self, places: Tensor, mass: Tensor) -> None:
        """Add mass on some tokens (some,), given their places in the document (some,) int64."""
        self._mass.index_add_(0, places, mass)

    @property
    def by_place(self) -> Tensor:
        """The mass by place in the document (tokens,) fp32, which may be added to."""
        return self._mass

    @staticmethod
    def run_ahead(masses: "Sequence[AttentionMass]") -> list[Tensor]:
        """Copy what was collected, for a pass that is launched before it is known to count.

        Returns: for each what the pass adds to (tokens,) fp32; it counts from `accept` on.
        """
        for mass in masses:
            if mass._ahead is None:
                mass._ahead = torch.empty_like(mass._mass)
        copies = [mass._ahead for mass in masses if mass._ahead is not None]
        torch._foreach_copy_(copies, [mass._mass for mass in masses])
        return copies

    def accept(self) -> None:
        """Let the pass count for which `run_ahead` made a copy."""
        if self._ahead is not None:
            self._mass, self._ahead = self._ahead, self._mass

    def above_neutral(self, mass: Tensor, num_passes: int) -> Tensor:
        """Take off what tokens get whatever is asked; sinks count nothing.

        Args:
            mass: by place in the document (tokens,), of some passes.
            num_passes: how many these were.
        Returns: (tokens,) fp32 on the CPU.
        """
        mass = mass.cpu().clone()
        mass[: self._num_sinks] = 0.0
        if self._profile is None:
            return mass
        return mass.sub_(self._profile.neutral, alpha=num_passes).clamp_(min=0.0)

    def on_tokens(self, mass: Tensor | None = None) -> Tensor:
        """The mass of each document token (tokens,) on the CPU; sinks count nothing.

        Args:
            mass: by place in the document (tokens,); None for all that was collected.
        """
        mass = (self._mass if mass is None else mass).cpu().clone()
        mass[: self._num_sinks] = 0.0
        return mass


def find_evidence(
    document: DocumentCache,
    mass: Tensor,
    *,
    question: str = "",
    limit: int = 3,
    quoted: Sequence[tuple[int, int]] = (),
) -> tuple[Evidence, ...]:
    """Rank passages by the mass on their tokens and by the words that they share with a question.

    Args:
        mass: attention mass per document token (tokens,).
        question: in words; without it attention alone counts.
        limit: passages at most, but for those that are quoted.
        quoted: half-open spans of characters that the answer quotes: their passages are among
            those that are returned.
    """
    passages = document.structure.passages
    shares = passage_shares(document, mass)
    lexical = torch.zeros(len(passages))
    if question:
        lexical = torch.from_numpy(document.lexical.scores(question)).float()
    found = [document.structure.find_passage(start) for start, _ in quoted]
    own = list(dict.fromkeys(index for index in found if index is not None))
    scores = blend(shares, lexical, own)
    first = scores.topk(min(len(scores), limit + len(own))).indices.tolist()
    wanted = list(dict.fromkeys([*own, *first]))
    rows = torch.stack((scores, shares, lexical))[:, wanted].T.tolist()
    figures: dict[int, list[float]] = dict(zip(wanted, rows, strict=True))
    best = [index for index in first if index not in own][:limit]

    def is_enough(index: int) -> bool:
        _, share, shared_words = figures[index]
        return share >= LEAST_SHARE or shared_words >= LEAST_LEXICAL

    others = list(filter(is_enough, best))
    chosen = own + others[: max(0, limit - len(own))]
    chosen.sort(key=lambda index: -figures[index][0])
    return tuple(_evidence(document, passages[index], *figures[index][1:]) for index in chosen)


def passage_shares(document: DocumentCache, mass: Tensor) -> Tensor:
    """The share of the attention mass that each passage got.

    Args:
        mass: attention mass per document token (tokens,).
    Returns: (passages,) fp32 on the CPU; zeros without any mass.
    """
    passages = document.structure.passages
    total = float(mass.sum())
    if total <= 0.0 or not passages:
        return torch.zeros(len(passages))
    inside, _ = document.middles_of_tokens
    of_tokens = mass.cpu().index_select(0, inside)
    return document.token_passages.sums(of_tokens) / total


def blend(
    shares: Tensor,
    lexical: Tensor,
    quoted: Sequence[int] = (),
    *,
    attention_weight: float = ATTENTION_WEIGHT,
) -> Tensor:
    """The score of each passage: its lexical score, and the root of its share of attention.

    Args:
        shares: of the attention mass (passages,).
        lexical: in [0, 1] (passages,).
        quoted: indices of passages that the answer quotes.
        attention_weight: of the root of a share.
    Returns: (passages,).
    """
    scores = lexical + attention_weight * shares.sqrt()
    if quoted:
        scores[list(quoted)] += QUOTED_WEIGHT
    return scores


def _last_token(rows: Tensor, group: int) -> Tensor:
    """(kv_heads, group x tokens, width) to the last token's (kv_heads, group, width)."""
    heads, num_rows, width = rows.shape
    return rows.reshape(heads, group, num_rows // group, width)[:, :, -1]


def _evidence(document: DocumentCache, passage: Passage, weight: float, lexical: float) -> Evidence:
    start, end = passage.start, passage.end
    place = document.structure.find_place(document.text, passage)
    return Evidence(
        quote=quote_of(document.text, start, end, MAX_QUOTE_CHARS),
        page=document.page_of(start),
        start_char=start,
        end_char=end,
        weight=round(weight, 4),
        heading=place.heading,
        paragraph=place.paragraph,
        lexical=round(lexical, 4),
    )
