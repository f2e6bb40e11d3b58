"""The graphs in which questions are prefilled, by how many tokens a pass has."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from engine.attend.question import QuestionState
from engine.decode.batch_graph import BatchLayer
from engine.decode.pass_bytes import PassBytes
from engine.decode.question_graph import QuestionGraph
from engine.decode.running_answer import PrefillChunk
from engine.fallbacks import Cause
from engine.kernels.batch.sizes import DocumentSizes
from engine.kernels.batch.tables import DocumentTable
from engine.kernels.batch.workspace import Buffers
from engine.kernels.question.sizes import QuestionSizes
from engine.kernels.question.tables import ALL_TOKENS, AskedQuestion
from engine.model.loader import LoadedModel

SIZES = (32, 64, 128, 256, 512)  # tokens of a pass
OWN_TOKENS = 2048  # of a question and its earlier turns, whose keys a pass may have


class QuestionGraphs:
    """Takes parts of questions' prefills, each in the smallest graph that holds it.

    Args:
        model: whose layers all have as many heads of the same width, for which there are kernels.
        variant: what the graphs run, over the model's weights.
        layers: of the model.
        documents: that questions are about.
        aggregation: how a group's scores are aggregated (`LookupConfig`).
        clusters, list_tokens: of a document's head at most, as of `QuestionSizes`.
    """

    def __init__(
        self,
        model: LoadedModel,
        variant: nn.Module,
        layers: Sequence[BatchLayer],
        documents: DocumentTable,
        aggregation: str,
        *,
        clusters: int,
        list_tokens: int,
    ) -> None:
        first, buffers = model.spec.layers[0], Buffers()
        shape = (model.spec.num_layers, first.num_heads, first.num_kv_heads, first.head_dim)
        self._graphs = [
            QuestionGraph(
                variant,
                QuestionSizes(size, *shape, clusters, list_tokens, OWN_TOKENS),
                layers,
                documents,
                aggregation,
                model.dtype,
                buffers,
            )
            for size in reversed(SIZES)  # the largest first, whose memory the others share
        ][::-1]
        self._token_bytes = 2 * first.head_dim * model.dtype.itemsize
        self._is_on_gpu = model.device.type == "cuda"

    def capture(self, pool: Any) -> None:
        """Warm up, and on a GPU capture, all graphs.

        Args:
            pool: memory that they share with graphs on the same stream; None for their own.
        Raises: whatever the model, a compiler or a driver may raise.
        """
        for graph in reversed(self._graphs):
            graph.warm_up()
            if self._is_on_gpu:
                graph.capture(pool)
                pool = graph.pool

    def refuses(self, chunk: PrefillChunk, document: DocumentSizes) -> Cause | None:
        """Say why no graph can take a part of a prefill; None if one can."""
        state = chunk.running.state
        if not state.prefill_reads_all and state.prefill_tokens is None:
            return Cause.UNSUPPORTED  # it keeps to thresholds
        fits = self._graphs[-1].sizes.takes(len(chunk.ids), document, state.num_own)
        return None if fits else Cause.NO_ROOM

    @torch.inference_mode()
    def prefill(self, chunk: PrefillChunk, slot: int, pass_bytes: PassBytes) -> Tensor:
        """Take a part for which `refuses` gives no reason.

        Args:
            slot: of its document, in the document table.
            pass_bytes: of passes over the document.
        Returns: logits (vocabulary,) fp32 after its last token.
        """
        state, num_tokens = chunk.running.state, len(chunk.ids)
        graph = next(graph for graph in self._graphs if graph.sizes.tokens >= num_tokens)
        num_earlier = state.num_own
        if num_earlier > 0:
            earlier = graph.own(num_earlier)
            for side, parts in enumerate(zip(*state.keys_and_values(), strict=True)):
                earlier[:, side].copy_(torch.stack(parts))
        logits = graph.run(chunk.ids, _asked(state, num_tokens, slot, graph.sizes.num_layers))
        read: int | Tensor = pass_bytes.whole
        if not state.prefill_reads_all:  # fetched when somebody asks
            read = graph.num_selected * self._token_bytes + pass_bytes.fixed
        own = graph.own(num_earlier + num_tokens).clone()
        state.take_prefill(own[:, 0].unbind(), own[:, 1].unbind())
        state.meter.add_prefill(read, pass_bytes.full, pass_bytes.windowed)
        return logits


def _asked(state: QuestionState, num_tokens: int, slot: int, num_layers: int) -> AskedQuestion:
    """What a pass over a question's next tokens is to know."""
    wanted = (ALL_TOKENS,) * num_layers if state.prefill_reads_all else state.prefill_tokens
    assert wanted is not None  # it was asked whether the graphs take it
    mass = state.mass if state.collects_within(num_tokens) else None
    by_place = None if mass is None else mass.by_place
    return AskedQuestion(slot, num_tokens, state.position, wanted, by_place, state.num_own)
