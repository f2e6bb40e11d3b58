"""The graphs in which questions are prefilled, by how many of how many tokens a pass has."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

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

SIZES = (32, 64, 128, 256, 512)  # tokens of a pass of one question
# Questions of a pass by their tokens: as many as products of matrices still wait for the weights.
SHARED_SIZES = ((64, (2, 4)), (128, (2,)))
OWN_TOKENS = 2048  # of a question and its earlier turns, whose keys a pass may have
SHARED_OWN_TOKENS = 512  # the same of each question of a pass of several


class QuestionPart(NamedTuple):
    """A part of a prefill that is to be taken in a graph.

    Attributes:
        slot: of its document, in the document table.
        pass_bytes: of passes over the document.
    """

    chunk: PrefillChunk
    slot: int
    pass_bytes: PassBytes

    @property
    def num_tokens(self) -> int:
        """Tokens of the part."""
        return len(self.chunk.ids)

    @property
    def num_own(self) -> int:
        """Tokens behind the document, with those of the part."""
        return self.chunk.running.state.num_own + self.num_tokens


class QuestionGraphs:
    """Takes parts of questions' prefills, several short ones in one pass.

    Args:
        model: whose layers all have as many heads of the same width, for which there are kernels.
        variant: what the graphs run, over the model's weights.
        layers: of the model.
        documents: that questions are about.
        aggregation: how a group's scores are aggregated (`LookupConfig`).
        clusters, list_tokens: of a document's head at most, as of `QuestionSizes`.
        most_questions: of a pass.
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
        most_questions: int,
    ) -> None:
        first = model.spec.layers[0]
        shape = (model.spec.num_layers, first.num_heads, first.num_kv_heads, first.head_dim)
        sizes = {
            tokens: [count for count in counts if count <= most_questions]
            for tokens, counts in SHARED_SIZES
        }
        buffers = [Buffers() for _ in range(max([1, *chain.from_iterable(sizes.values())]))]

        def make(tokens: int, count: int, own_tokens: int) -> QuestionGraph:
            return QuestionGraph(
                variant,
                QuestionSizes(tokens, *shape, clusters, list_tokens, own_tokens),
                layers,
                documents,
                aggregation,
                model.dtype,
                buffers[:count],
            )

        # The largest first, whose memory the others share.
        self._graphs = [make(tokens, 1, OWN_TOKENS) for tokens in reversed(SIZES)][::-1]
        self._shared = {
            tokens: [make(tokens, count, SHARED_OWN_TOKENS) for count in counts]
            for tokens, counts in reversed(sizes.items())
        }
        self._token_bytes = 2 * first.head_dim * model.dtype.itemsize

    def prepare(self, pool: Any) -> None:
        """Compile, and on a GPU capture, all graphs.

        Args:
            pool: memory that they share with graphs on the same stream; None for their own.
        Raises: whatever the model, a compiler or a driver may raise.
        """
        for graph in (*reversed(self._graphs), *chain.from_iterable(self._shared.values())):
            graph.prepare(pool)
            pool = graph.pool

    def refuses(self, chunk: PrefillChunk, document: DocumentSizes) -> Cause | None:
        """Say why no graph can take a part of a prefill; None if one can."""
        state = chunk.running.state
        if not state.prefill_reads_all and state.prefill_tokens is None:
            return Cause.UNSUPPORTED  # it keeps to thresholds
        fits = self._graphs[-1].sizes.takes(len(chunk.ids), document, state.num_own)
        return None if fits else Cause.NO_ROOM

    def prefill(self, parts: Sequence[QuestionPart]) -> list[Tensor]:
        """Take parts for which `refuses` gives no reason, in as few passes as there can be.

        Returns: logits (vocabulary,) fp32 after the last token of each.
        """
        logits: dict[int, Tensor] = {}
        for graph, members in self._passes(parts):
            found = self._take_pass(graph, [parts[index] for index in members])
            logits |= zip(members, found, strict=True)
        return [logits[index] for index in range(len(parts))]

    def _passes(self, parts: Sequence[QuestionPart]) -> list[tuple[QuestionGraph, list[int]]]:
        """Choose the graphs of the passes, and which parts each takes."""
        passes, waiting = [], list(range(len(parts)))
        for tokens, graphs in sorted(self._shared.items()):
            short = [
                index
                for index in waiting
                if parts[index].num_tokens <= tokens and parts[index].num_own <= SHARED_OWN_TOKENS
            ]
            while graphs and len(short) > 1:
                most = graphs[-1]
                graph = next((one for one in graphs if one.num_questions >= len(short)), most)
                members, short = short[: graph.num_questions], short[graph.num_questions :]
                waiting = [index for index in waiting if index not in members]
                passes.append((graph, members))
        for index in waiting:
            num_tokens = parts[index].num_tokens
            graph = next(graph for graph in self._graphs if graph.sizes.tokens >= num_tokens)
            passes.append((graph, [index]))
        return passes

    @torch.inference_mode()
    def _take_pass(self, graph: QuestionGraph, parts: Sequence[QuestionPart]) -> Tensor:
        """Take one pass: logits (parts, vocabulary), and what the answers' states get of it."""
        for place, part in enumerate(parts):
            state = part.chunk.running.state
            if state.num_own > 0:
                earlier = graph.own(place, state.num_own)
                for side, each in enumerate(zip(*state.keys_and_values(), strict=True)):
                    earlier[:, side].copy_(torch.stack(each))
        logits = graph.run(
            [(part.chunk.ids, _asked(part, graph.sizes.num_layers)) for part in parts]
        )
        for place, part in enumerate(parts):
            state, pass_bytes = part.chunk.running.state, part.pass_bytes
            read: int | Tensor = pass_bytes.whole
            if not state.prefill_reads_all:  # fetched when somebody asks
                read = graph.num_selected[place] * self._token_bytes + pass_bytes.fixed
            own = graph.own(place, part.num_own).clone()
            state.take_prefill(own[:, 0].unbind(), own[:, 1].unbind())
            state.meter.add_prefill(read, pass_bytes.full, pass_bytes.windowed)
        return logits


def _asked(part: QuestionPart, num_layers: int) -> AskedQuestion:
    """What a pass over a question's next tokens is to know."""
    state: QuestionState = part.chunk.running.state
    wanted = (ALL_TOKENS,) * num_layers if state.prefill_reads_all else state.prefill_tokens
    assert wanted is not None  # it was asked whether the graphs take it
    mass = state.mass if state.collects_within(part.num_tokens) else None
    by_place = None if mass is None else mass.by_place
    return AskedQuestion(
        part.slot, part.num_tokens, state.position, wanted, by_place, state.num_own
    )
