"""Sizes of a captured prefill, which are fixed when it is captured."""

from dataclasses import dataclass

from common.errors import ShapeError
from engine.kernels.batch.sizes import DocumentSizes
from engine.kernels.shared.sizes import MAX_ELEMENTS


@dataclass(frozen=True)
class QuestionSizes:
    """What a captured prefill can take; every layer of a model has the same.

    Kernels take heads as wide as `has_kernels` says.

    Attributes:
        tokens: of the question at most.
        num_layers: of the model.
        num_heads: query heads.
        kv_heads: KV heads.
        head_dim: width of a key.
        clusters: level-2 clusters of a head of the document at most.
        list_tokens: clustered tokens of a head at most.
        own_tokens: of the question and all that stands between it and the document, at most.
    Raises: ShapeError if there is no room for the keys of a whole pass.
    """

    tokens: int
    num_layers: int
    num_heads: int
    kv_heads: int
    head_dim: int
    clusters: int
    list_tokens: int
    own_tokens: int

    def __post_init__(self) -> None:
        if self.own_tokens < self.tokens:
            raise ShapeError(f"{self.tokens} tokens do not fit into {self.own_tokens} places.")

    @property
    def group(self) -> int:
        """Query heads per KV head."""
        return self.num_heads // self.kv_heads

    @property
    def rows(self) -> int:
        """Rows per KV head at most: query heads of a group x tokens."""
        return self.group * self.tokens

    def takes(self, tokens: int, document: DocumentSizes, num_earlier: int = 0) -> bool:
        """Whether so many tokens of a question about a document fit, behind so many others."""
        num_keys = document.num_anchors + document.num_keys
        return (
            0 < tokens <= self.tokens
            and num_earlier + tokens <= self.own_tokens
            and document.num_clusters <= self.clusters
            and document.num_keys <= self.list_tokens
            and num_keys * self.head_dim < MAX_ELEMENTS
        )
