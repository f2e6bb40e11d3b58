"""What one layer of a captured prefill reads."""

from dataclasses import dataclass

from torch import Tensor

from common.errors import ShapeError
from engine.kernels.batch.tables import DocumentTable
from engine.kernels.decode.inputs import Scoring
from engine.kernels.question.sizes import QuestionSizes
from engine.kernels.question.tables import Field, QuestionTable
from engine.kernels.shared.checks import check_contiguous, check_strided
from engine.kernels.shared.score_clusters import check_aggregation


@dataclass(frozen=True, kw_only=True)
class QuestionInputs:
    """Everything that one layer of a question's prefill reads.

    Tokens behind the question's last one are padding, which may hold anything.

    Attributes:
        query: (num_heads, tokens, head_dim), after RoPE; its last dimension is contiguous.
        key, value: of the same tokens (kv_heads, tokens, head_dim); as the query.
        table: the question.
        documents: which it is about one of.
        layer: which of the model's.
        retrieval: how many of its KV heads, the first ones, are retrieval heads.
        scoring: how keys are scored.
        window: the layer's sliding window; it has neither clusters nor streaming heads then.
        sink_logits: (num_heads,), contiguous; a score of each query head that takes part in its
            softmax without a value. None for no such scores.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    table: QuestionTable
    documents: DocumentTable
    layer: int
    retrieval: int
    scoring: Scoring
    window: int | None = None
    sink_logits: Tensor | None = None

    @property
    def looks_up(self) -> bool:
        """Whether the layer may have clusters."""
        return self.retrieval > 0 and self.window is None

    def validate(self, sizes: QuestionSizes) -> None:
        """Check the tensors against the sizes, by their metadata alone.

        Raises: ShapeError if one does not fit or lies in memory in another way than stated;
            InvalidInput for an unknown aggregation.
        """
        s, dtype, device = sizes, self.query.dtype, self.query.device
        check_aggregation(self.scoring.aggregation)
        for name, part, heads in (
            ("query", self.query, s.num_heads),
            ("key", self.key, s.kv_heads),
            ("value", self.value, s.kv_heads),
        ):
            check_strided(name, part, (heads, s.tokens, s.head_dim), dtype, device)
            if part.stride(2) != 1:
                raise ShapeError(f"A {name} of strides {part.stride()} is strided within a row.")
        if self.sink_logits is not None:
            sinks = self.sink_logits
            check_contiguous("sink logits", sinks, (s.num_heads,), sinks.dtype, device)
        if not 0 <= self.retrieval <= s.kv_heads or not 0 <= self.layer < s.num_layers:
            raise ShapeError(f"Layer {self.layer} has no {self.retrieval} retrieval heads.")
        if self.window is not None and self.retrieval < s.kv_heads:
            raise ShapeError("A layer with a window has no streaming heads.")
        if self.documents.log_weights.shape[2] < self.retrieval:
            raise ShapeError("The documents' table has weights of too few heads.")
        if len(self.table.device) != Field.WANTED + s.num_layers:
            raise ShapeError(f"The question's table is not one of {s.num_layers} layers.")
        if self.table.device.device != device or self.documents.records.device != device:
            raise ShapeError("The tables are not on the device of the query.")
