"""Sizes of one layer's decode step."""

from dataclasses import dataclass

from engine.kernels.decode.inputs import QuestionKeys, ResidentLayer
from engine.kernels.shared.sizes import power_of_two


@dataclass(frozen=True)
class StepSizes:
    """Sizes of one layer's decode step: layers of equal sizes can share a workspace.

    Attributes:
        batch: questions of the step, all about the one document.
        num_heads: query heads.
        kv_heads: KV heads, of which the first `retrieval` are retrieval heads.
        head_dim: width of a key.
        retrieval: retrieval heads, which have clusters.
        num_anchors: anchors of each retrieval head.
        num_keys: clustered tokens of each retrieval head.
        num_clusters: level-2 clusters of each retrieval head.
        num_upper: its level-1 clusters; 0 for one-level lookup.
        num_streaming_keys: keys of each streaming head.
        capacity: keys that a question may have.
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
        """Query heads per KV head."""
        return self.num_heads // self.kv_heads

    @property
    def group_pad(self) -> int:
        """Rows that a question's group takes in a tile of queries."""
        return power_of_two(self.group)

    @property
    def rows(self) -> int:
        """Rows of all questions in a tile: row b x group_pad + g is head g of question b."""
        return power_of_two(self.batch) * self.group_pad


def sizes_of(layer: ResidentLayer, question: QuestionKeys, num_heads: int) -> StepSizes:
    """Return the sizes of a step.

    Args:
        layer, question: what the step reads.
        num_heads: query heads.
    """
    batch, kv_heads, capacity, head_dim = question.keys.shape
    return StepSizes(
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
