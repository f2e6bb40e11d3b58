"""Sizes of a step of many rows, which are fixed when it is captured."""

from dataclasses import dataclass

from engine.kernels.shared.sizes import MAX_ELEMENTS, ceil_div, has_kernels, power_of_two

PAGE = 64  # tokens of a page of question keys, and of a tile of dense keys
MAX_DENSE_SPLITS = 32  # of one row's dense keys in one head
MAX_GROUP_ROWS = 32  # rows of a group: one bit each in a mask of 32
SEGMENT = 16  # tokens of a segment of a run at most
WHOLE_ROWS = 8  # groups of so many rows may read whole heads in one pass


@dataclass(frozen=True)
class BatchSizes:
    """Sizes of a captured step; every layer of a model has the same.

    A *row* is the next token of one question. Rows about the same document that select clusters by
    thresholds form *groups*, and so do those that read all of it: a group's rows are multiplied
    with a cluster together, so that it is read once for all of them.

    Attributes:
        rows: rows of a step at most, a power of two; groups can be as many.
        group_rows: rows of a group at most, a power of two.
        num_heads: query heads.
        kv_heads: KV heads.
        head_dim: width of a key.
        max_pages: pages of one question's own keys at most.
        clusters: level-2 clusters of a head, summed over a step's groups, at most.
        list_tokens: clustered tokens of a head, summed over a step's groups, at most.
        anchor_tokens: anchors of documents, summed over a step's rows, at most.
    """

    rows: int
    group_rows: int
    num_heads: int
    kv_heads: int
    head_dim: int
    max_pages: int
    clusters: int
    list_tokens: int
    anchor_tokens: int

    @property
    def group(self) -> int:
        """Query heads per KV head."""
        return self.num_heads // self.kv_heads

    @property
    def group_pad(self) -> int:
        """Rows of a tile that one token's GQA group takes."""
        return power_of_two(self.group)

    @property
    def tile_rows(self) -> int:
        """Rows of a tile of queries: row b x group_pad + g is head g of the group's row b."""
        return self.group_rows * self.group_pad

    def segments(self, segment: int = SEGMENT) -> int:
        """Segments of a head, summed over a step's groups, at most.

        Args:
            segment: tokens of a segment at most. Each cluster has one segment at most that is
                shorter than the others.
        """
        return self.list_tokens // segment + self.clusters

    @property
    def reads_whole(self) -> bool:
        """Whether a head may be read in one pass because most of it is selected."""
        return self.group_rows >= WHOLE_ROWS

    @property
    def score_slots(self) -> int:
        """Places for scores of a head's tokens, summed over a step's groups, at most."""
        return self.list_tokens * (1 if self.reads_whole else 2) + self.rows * SEGMENT

    def is_supported(self) -> bool:
        """Whether kernels can take such steps: by the width of heads and by what 32 bits count."""
        return (
            has_kernels(self.head_dim)
            and self.group_rows <= min(MAX_GROUP_ROWS, self.rows)
            and self.score_slots * self.kv_heads * self.tile_rows < MAX_ELEMENTS
            and self.clusters * self.kv_heads * self.tile_rows < MAX_ELEMENTS
        )


@dataclass(frozen=True)
class DocumentSizes:
    """What a step must know of a document on the host: the same in all layers of a kind.

    Attributes:
        num_tokens: where its questions' positions begin.
        num_anchors, num_keys, num_clusters: of a retrieval head in layers without a window:
            anchors, clustered tokens, level-2 clusters.
        num_streaming: keys of a streaming head; 0 without.
        num_window: keys of a layer with a window; 0 without such layers.
    """

    num_tokens: int
    num_anchors: int
    num_keys: int
    num_clusters: int
    num_streaming: int = 0
    num_window: int = 0

    @property
    def dense_keys(self) -> int:
        """Dense keys of the document in a layer without a window, of whichever head has more."""
        return max(self.num_anchors, self.num_streaming)

    def num_segments(self, segment: int) -> int:
        """Segments of a head at most."""
        return self.num_keys // segment + self.num_clusters

    def num_slots(self, segment: int, *, reads_whole: bool) -> int:
        """Places for scores of a head's tokens, each segment filled up.

        Args:
            reads_whole: whether all of a head is read before its list gets as long as that.
        """
        whole = ceil_div(self.num_keys, segment)
        return segment * (whole if reads_whole else max(whole, self.num_segments(segment)))


def dense_split_keys(document_keys: int, own_keys: int) -> int:
    """Return how many dense keys a program takes, so that there are `MAX_DENSE_SPLITS` at most.

    Args:
        document_keys, own_keys: of any row of the step at most.
    Returns: a multiple of `PAGE`; one page, so that a program waits for memory once, if it can be.
    """
    keys = PAGE
    while ceil_div(document_keys, keys) + ceil_div(own_keys, keys) > MAX_DENSE_SPLITS:
        keys *= 2
    return keys
