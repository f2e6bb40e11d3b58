"""A document as the engine holds it: per layer its keys and values in cluster order."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from common.lexical import PassageIndex
from common.passages import NO_STRUCTURE, DocumentStructure
from engine.config import LookupConfig
from engine.document.budget import BudgetCurves
from engine.document.retrieval_profile import RetrievalProfile
from engine.document.token_parts import TokenParts

ATTENTION_BINS = 256  # equal spans of a text, of which it is told what attention they got


@dataclass(frozen=True)
class Clusters:
    """One level of the clustering of a layer's keys; cluster j is a contiguous run.

    Attributes:
        centroids: (kv_heads, clusters, head_dim), means of unnormalised member keys.
        offsets: (kv_heads, clusters + 1) int32, run j is offsets[j] to offsets[j + 1], counted in
            what the level groups: tokens for level 2, level-2 clusters for level 1.
    """

    centroids: Tensor
    offsets: Tensor

    @property
    def sizes(self) -> Tensor:
        """Members per cluster (kv_heads, clusters); 0 for an empty one."""
        return self.offsets.diff(dim=1)

    @property
    def num_centroids(self) -> int:
        """Centroids of all heads."""
        return self.centroids.shape[0] * self.centroids.shape[1]


@dataclass(frozen=True)
class StreamingCache:
    """What a layer's streaming heads keep: of a constant size, however long the document is.

    Attributes:
        keys, values: (kv_heads, tokens, head_dim), keys after RoPE: sinks, the document's last
            tokens, and if any tokens were dropped for it, the compensation token: their mean.
        num_dropped: how many tokens the compensation token stands for; 0 if there is none.
    """

    keys: Tensor
    values: Tensor
    num_dropped: int

    @property
    def num_kept(self) -> int:
        """Tokens of the document that are kept as they are."""
        return self.keys.shape[1] - (self.num_dropped > 0)


@dataclass(frozen=True)
class ScopedHeads:
    """Heads with linear biases that see equally far, and all of the document that they can see.

    Attributes:
        heads: which of the layer's they are.
        keys, values: (heads, tokens, head_dim), the document's last tokens in their order.
    """

    heads: tuple[int, ...]
    keys: Tensor
    values: Tensor

    def positions(self, num_tokens: int) -> Tensor:
        """The tokens' places in a document of `num_tokens`, (tokens,) int64."""
        return torch.arange(num_tokens - self.keys.shape[1], num_tokens, device=self.keys.device)


@dataclass(frozen=True)
class LayerCache:
    """One layer's document cache: its retrieval heads' clustered one, its streaming heads' other.

    Retrieval heads are a layer's first KV heads, streaming heads its last.

    Attributes:
        keys, values: (retrieval_heads, tokens, head_dim), keys after RoPE: first the anchors (sinks
            and exact tail), which every question attends to, then the clustered tokens. A layer
            may have no retrieval head, and still tells the document's number of tokens.
        positions: (retrieval_heads, tokens) int32, each token's place in the prompt.
        num_anchors: how many of the tokens are anchors.
        level2: clusters of the other tokens; level1: clusters of level-2 clusters.
        window: the layer's sliding window (then all its tokens are anchors), or None.
        streaming: of the streaming heads; None if the layer has none.
        scoped: of heads with linear biases; if there are any, they are all that the layer has.
    """

    keys: Tensor
    values: Tensor
    positions: Tensor
    num_anchors: int
    level2: Clusters
    level1: Clusters
    window: int | None = None
    streaming: StreamingCache | None = None
    scoped: tuple[ScopedHeads, ...] = ()

    @property
    def num_retrieval(self) -> int:
        """KV heads that read the whole document."""
        return self.keys.shape[0]

    @property
    def num_tokens(self) -> int:
        """Tokens that a retrieval head holds, anchors included."""
        return self.keys.shape[1]

    @property
    def num_collecting(self) -> int:
        """KV heads whose attention mass evidence is made of: those that see the whole document."""
        if self.window is not None:
            return 0
        scoped = (part for part in self.scoped if part.keys.shape[1] == self.num_tokens)
        return self.num_retrieval + sum(len(part.heads) for part in scoped)

    @property
    def has_clusters(self) -> bool:
        """Whether any token is clustered."""
        return self.num_retrieval > 0 and self.num_tokens > self.num_anchors

    @property
    def num_clustered(self) -> int:
        """Clustered tokens over all retrieval heads; 0 in a layer with a sliding window."""
        return self.num_retrieval * (self.num_tokens - self.num_anchors)

    @property
    def full_vectors(self) -> int:
        """Keys and values that full attention reads, in all heads."""
        others = sum(cache.keys.shape[0] for cache in self.constant_caches)
        return 2 * (self.num_retrieval + others) * self.num_tokens

    @property
    def constant_caches(self) -> tuple[StreamingCache | ScopedHeads, ...]:
        """The caches of all heads but the retrieval heads: every question reads them whole."""
        return self.scoped if self.streaming is None else (self.streaming, *self.scoped)

    @property
    def constant_vectors(self) -> int:
        """Keys and values that every question reads: anchors, and the constant caches."""
        others = sum(cache.keys.shape[0] * cache.keys.shape[1] for cache in self.constant_caches)
        return 2 * (self.num_retrieval * self.num_anchors + others)

    def fixed_vectors(self, levels: int) -> int:
        """Keys, values and centroids that every question reads with so many levels of lookup."""
        first = self.level1 if levels == 2 else self.level2
        return self.constant_vectors + first.num_centroids

    def level1_token_sizes(self) -> Tensor:
        """Count the tokens of each level-1 cluster.

        Returns: (retrieval_heads, level-1 clusters) int32.
        """
        return self.level2.offsets.gather(1, self.level1.offsets.long()).diff(dim=1)

    def tensors(self) -> Iterator[Tensor]:
        """Every tensor of the layer."""
        yield from (self.keys, self.values, self.positions)
        for level in (self.level2, self.level1):
            yield from (level.centroids, level.offsets)
        for cache in self.constant_caches:
            yield from (cache.keys, cache.values)

    @property
    def kv_numbers(self) -> int:
        """Numbers in all keys and values held."""
        caches = (self, *self.constant_caches)
        return sum(cache.keys.numel() + cache.values.numel() for cache in caches)


@dataclass(frozen=True)
class Page:
    """A page's number, from 1, and its half-open character span."""

    number: int
    start: int
    end: int


@dataclass(frozen=True)
class LengthChoices:
    """What the document's length decided when it was read, and holds for every question about it.

    Attributes:
        window: last tokens that streaming heads saw; None where no head streams.
        rope: which factors of a longrope model its positions were turned by, "short" or "long";
            None for models that have no choice.
    """

    window: int | None = None
    rope: str | None = None


@dataclass(frozen=True)
class DocumentCache:
    """A document that was read: everything that a question needs.

    Attributes:
        layers: per model layer.
        ids: (tokens,) int64, the prompt's first side.
        offsets: (tokens, 2) int32 character spans, (-1, -1) for the template's tokens.
        text: the document's text.
        pages: its pages; none for a format without pages.
        num_sinks: leading tokens that are attention sinks.
        lookup: how clusters are found; the curves hold for it alone.
        curves: from a budget to the thresholds that load it.
        choices: what its length decided.
        structure: blocks and passages of the text.
        profile: what calibration measured for evidence; None where nothing is looked up, and for a
            document that an earlier version has read.
    """

    layers: tuple[LayerCache, ...]
    ids: Tensor
    offsets: Tensor
    text: str
    pages: tuple[Page, ...]
    num_sinks: int
    lookup: LookupConfig
    curves: BudgetCurves
    choices: LengthChoices = LengthChoices()
    structure: DocumentStructure = NO_STRUCTURE
    profile: RetrievalProfile | None = None

    @cached_property
    def lexical(self) -> PassageIndex:
        """The words of its passages; made when first asked for, .4 s for 128K tokens."""
        return PassageIndex(self.text, self.structure)

    def index_words(self, rest: Callable[[], None]) -> None:
        """Make `lexical` before somebody asks for it, who would not wait for this.

        What else is made of the text for answers is made, too.

        Args:
            rest: called between two passages, and may take a while.
        """
        if "lexical" not in self.__dict__:
            index = PassageIndex(self.text, self.structure, rest)
            self.__dict__.setdefault("lexical", index)  # where `cached_property` looks
        if self.structure.passages:
            _ = self.token_passages, self.token_bins

    @cached_property
    def middles_of_tokens(self) -> tuple[Tensor, Tensor]:
        """Tokens that stand in the text, and the character in the middle of each.

        The template's tokens stand nowhere.

        Returns: (tokens,) int64 indices of tokens and of characters, on the CPU.
        """
        offsets = self.offsets.cpu().long()
        inside = (offsets[:, 1] > offsets[:, 0]).nonzero()[:, 0]
        return inside, (offsets[inside, 0] + offsets[inside, 1] - 1) // 2

    @cached_property
    def token_passages(self) -> TokenParts:
        """The passages that `middles_of_tokens` are in; there is one at least."""
        passages = self.structure.passages
        starts = torch.tensor([passage.start for passage in passages])
        _, middles = self.middles_of_tokens
        indices = torch.searchsorted(starts, middles, right=True).sub(1).clamp(min=0)
        return TokenParts.of(indices, len(passages))

    @cached_property
    def token_bins(self) -> TokenParts:
        """The `ATTENTION_BINS` equal spans of the text that `middles_of_tokens` are in.

        There is some text.
        """
        _, middles = self.middles_of_tokens
        bins = (middles * ATTENTION_BINS // len(self.text)).clamp(0, ATTENTION_BINS - 1)
        return TokenParts.of(bins, ATTENTION_BINS)

    def with_layers(self, layers: Sequence[LayerCache]) -> "DocumentCache":
        """The same document with its layers' tensors elsewhere.

        What was made of its text, which takes a while, is kept.
        """
        copy = replace(self, layers=tuple(layers))
        kept = ("lexical", "middles_of_tokens", "token_passages", "token_bins")
        copy.__dict__.update({name: self.__dict__[name] for name in kept if name in self.__dict__})
        return copy

    @property
    def num_tokens(self) -> int:
        """Length of the prompt's first side: where a question begins."""
        return len(self.ids)

    def page_of(self, place: int) -> int | None:
        """The number of the page on which a character stands; None where no page holds it."""
        return next((page.number for page in self.pages if page.start <= place < page.end), None)

    @property
    def budgeted_layers(self) -> tuple[LayerCache, ...]:
        """The layers whose bytes a budget is a share of: all without a sliding window.

        Every question reads a sliding window whole, however small its budget is.
        """
        return tuple(layer for layer in self.layers if layer.window is None)

    @cached_property
    def full_vectors(self) -> int:
        """Keys and values that full attention reads in the budgeted layers."""
        return sum(layer.full_vectors for layer in self.budgeted_layers)

    @cached_property
    def fixed_vectors(self) -> int:
        """Keys, values and centroids that every question reads in the budgeted layers."""
        levels = self.lookup.levels
        return sum(layer.fixed_vectors(levels) for layer in self.budgeted_layers)

    @cached_property
    def clustered_vectors(self) -> tuple[int, ...]:
        """By layer, clustered keys and values over all retrieval heads."""
        return tuple(2 * layer.num_clustered for layer in self.layers)

    @property
    def kv_bytes(self) -> int:
        """Bytes of keys and values held, centroids not counted."""
        return sum(layer.kv_numbers * layer.keys.element_size() for layer in self.layers)

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors held."""
        held = (tensor.nbytes for layer in self.layers for tensor in layer.tensors())
        return sum(held) + self.ids.nbytes + self.offsets.nbytes


def no_clusters(keys: Tensor) -> Clusters:
    """A level without clusters, for keys (kv_heads, tokens, head_dim)."""
    heads, _, head_dim = keys.shape
    return Clusters(
        centroids=keys.new_zeros(heads, 0, head_dim),
        offsets=torch.zeros(heads, 1, dtype=torch.int32, device=keys.device),
    )
