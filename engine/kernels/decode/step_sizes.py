"""Shapes of one layer's decode step."""

from dataclasses import dataclass

from engine.kernels.decode.inputs import QuestionKeys, ResidentLayer
from engine.kernels.shared.sizes import power_of_two


@dataclass(frozen=True)
class Sizes:
    """Shapes of one layer's decode step: layers of equal sizes can share a workspace.

    Attributes:
        batch: questions about the one document.
        num_heads: query heads; kv_heads: KV heads, of which the first `retrieval` have clusters.
        num_anchors: anchors a retrieval head; num_keys: its clustered tokens.
        num_clusters, num_upper: clusters of level 2 and 1 a retrieval head; 0 of level 1 for
            one-level lookup.
        num_streaming_keys: keys a streaming head.
        capacity: keys a question may have.
    """

    batch: int
    num_heads: int
    kv_heads: int
    head_dim: int
    retrieval: int
    num_anchors: int
    num_keys: int
    num_clusters: int
    num_upper: int
    num_streaming_keys: int
    capacity: int

    @property
    def group(self) -> int:
        """Query heads a KV head."""
        return self.num_heads // self.kv_heads

    @property
    def group_pad(self) -> int:
        """The group's rows in a tile."""
        return power_of_two(self.group)

    @property
    def rows(self) -> int:
        """Rows of all questions in a tile: row b x group_pad + g is question b's head g."""
        return power_of_two(self.batch) * self.group_pad


def sizes_of(layer: ResidentLayer, question: QuestionKeys, num_heads: int) -> Sizes:
    """The sizes of a step with `num_heads` query heads."""
    batch, kv_heads, capacity, head_dim = question.keys.shape
    return Sizes(
        batch=batch,
        num_heads=num_heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        retrieval=layer.keys.shape[0],
        num_anchors=layer.num_anchors,
        num_keys=layer.keys.shape[1] - layer.num_anchors,
        num_clusters=layer.centroids.shape[1],
        num_upper=0 if layer.upper is None else layer.upper.centroids.shape[1],
        num_streaming_keys=0 if layer.streaming is None else layer.streaming.keys.shape[1],
        capacity=capacity,
    )
