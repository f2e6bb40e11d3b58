"""The graphs in which questions are prefilled, by how many tokens a pass has."""

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from engine.decode.packed_pass import PackedTokens
from engine.decode.prefill_graph import MAX_PARTS, PrefillBuffers, PrefillGraph
from engine.decode.running_answer import PrefillChunk, RunningAnswer
from engine.model.loader import LoadedModel

SIZES = (16, 32, 64, 128, 256, 512)  # tokens of a pass


class PrefillGraphs:
    """Takes parts of questions' prefills in the smallest graphs that hold them.

    Args:
        model: whose layers all have as many heads of the same width.
    """

    def __init__(self, model: LoadedModel) -> None:
        layer = model.spec.layers[0]
        buffers = PrefillBuffers(layer, SIZES[-1], model.dtype, model.device)
        self._graphs = [PrefillGraph(model.model, size, buffers) for size in SIZES]
        self._is_on_gpu = model.device.type == "cuda"

    def capture(self, pool: Any) -> None:
        """Warm up, and on a GPU capture, all graphs.

        Args:
            pool: memory that they share with graphs on the same stream; None for their own.
        Raises: whatever the model, a compiler or a driver may raise.
        """
        for graph in reversed(self._graphs):  # the largest first, whose memory the others share
            graph.warm_up()
            if self._is_on_gpu:
                graph.capture(pool)
                pool = graph.pool

    @staticmethod
    def fits(chunk: PrefillChunk) -> bool:
        """Whether a graph can take a part at all."""
        return len(chunk.ids) <= SIZES[-1]

    def prefill(self, chunks: Sequence[PrefillChunk]) -> dict[RunningAnswer, Tensor]:
        """Take parts that fit, in as few passes as hold them.

        Returns: logits (vocabulary,) fp32 after each part that is its question's last.
        """
        found: dict[RunningAnswer, Tensor] = {}
        for some in _passes(chunks):
            parts = [PackedTokens(chunk.running.state, chunk.ids) for chunk in some]
            num_tokens = sum(len(part.ids) for part in parts)
            graph = next(graph for graph in self._graphs if graph.size >= num_tokens)
            logits = graph.run(parts)
            found |= {
                chunk.running: row.clone()
                for chunk, row in zip(some, logits, strict=True)
                if chunk.is_last
            }
        return found


def _passes(chunks: Sequence[PrefillChunk]) -> Iterator[list[PrefillChunk]]:
    """Cut parts, in their order, into passes that the largest graph can take."""
    some: list[PrefillChunk] = []
    num_tokens = 0
    for chunk in chunks:
        is_full = num_tokens + len(chunk.ids) > SIZES[-1] or len(some) == MAX_PARTS
        if some and is_full:
            yield some
            some, num_tokens = [], 0
        some.append(chunk)
        num_tokens += len(chunk.ids)
    if some:
        yield some
