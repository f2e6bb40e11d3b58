"""What one layer of a step of many rows reads."""

from dataclasses import dataclass

from torch import Tensor

from common.errors import ShapeError
from engine.kernels.batch.sizes import PAGE, BatchSizes
from engine.kernels.batch.tables import DocumentTable, StepTables
from engine.kernels.decode.inputs import Scoring
from engine.kernels.shared.checks import check_contiguous, check_dims, check_values


@dataclass(frozen=True)
class BatchInputs:
    """Everything that one layer of a step reads.

    Attributes:
        query: (rows, num_heads, head_dim), contiguous, after RoPE, in the order of the tables; rows
            that the step does not have may hold anything.
        keys, values: (pages, kv_heads, PAGE, head_dim), contiguous: the questions' own keys, those
            of the new tokens included.
        tables: which rows the step has.
        documents: what they are about.
        layer: which of the model's.
        retrieval: how many of its KV heads, the first ones, are retrieval heads.
        scoring: how keys are scored.
        window: the layer's sliding window; it has neither clusters nor streaming heads then.
        sink_logits: (num_heads,), contiguous; a score of each query head that takes part in its
            softmax without a value. None for no such scores.
    """

    query: Tensor
    keys: Tensor
    values: Tensor
    tables: StepTables
    documents: DocumentTable
    layer: int
    retrieval: int
    scoring: Scoring
    window: int | None = None
    sink_logits: Tensor | None = None

    def validate(self, sizes: BatchSizes) -> None:
        """Check the tensors against the sizes, by their metadata alone.

        Raises: ShapeError if one does not fit or lies in memory in another way than stated.
        """
        s, dtype, device = sizes, self.query.dtype, self.query.device
        check_contiguous("query", self.query, (s.rows, s.num_heads, s.head_dim), dtype, device)
        pages = check_dims("question keys", self.keys, 4)[0]
        shape = (pages, s.kv_heads, PAGE, s.head_dim)
        check_contiguous("question keys", self.keys, shape, dtype, device)
        check_values(self.keys, self.values, device)
        if self.sink_logits is not None:
            sinks = self.sink_logits
            check_contiguous("sink logits", sinks, (s.num_heads,), sinks.dtype, device)
        if self.tables.sizes != s or not 0 <= self.retrieval <= s.kv_heads:
            raise ShapeError(f"Tables of {self.tables.sizes} do not fit a workspace for {s}.")
        if self.tables.device.device != device or self.documents.records.device != device:
            raise ShapeError("The tables are not on the device of the query.")
        if self.documents.log_weights.shape[2] < self.retrieval:
            raise ShapeError(f"The table has weights for fewer than {self.retrieval} heads.")
