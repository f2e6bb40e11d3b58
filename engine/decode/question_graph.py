"""A prefill pass of one question, about any document, as a CUDA graph."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from engine.decode.batch_graph import BatchLayer
from engine.decode.captured_pass import capture_pass
from engine.kernels.batch.tables import DocumentTable
from engine.kernels.batch.workspace import Buffers
from engine.kernels.decode.inputs import Scoring
from engine.kernels.question.attend_question import attend_question
from engine.kernels.question.inputs import QuestionInputs
from engine.kernels.question.sizes import QuestionSizes
from engine.kernels.question.tables import AskedQuestion, QuestionTable
from engine.kernels.question.workspace import allocate_question
from engine.model.attention import AttentionCall, forward


class QuestionGraph:
    """A prefill of one question of as many tokens as its sizes say; an `AttentionState`.

    Question and document are found in tables, so that the pass is captured once, before there is
    any document.

    Args:
        model: whose weights stay where they are.
        sizes: tokens of the question, and how much its document may have.
        layers: of the model.
        documents: that questions are about.
        aggregation: how a group's scores are aggregated (`LookupConfig`).
        dtype: of the model.
        buffers: memory that it shares with other graphs, which are not replayed meanwhile.

    Attributes:
        num_selected: () int64 on the device: clustered tokens that the last pass selected, over all
            layers and heads.
    """

    def __init__(
        self,
        model: nn.Module,
        sizes: QuestionSizes,
        layers: Sequence[BatchLayer],
        documents: DocumentTable,
        aggregation: str,
        dtype: torch.dtype,
        buffers: Buffers,
    ) -> None:
        self.sizes = sizes
        self._model, self._layers = model, layers
        self._documents, self._aggregation = documents, aggregation
        device = documents.records.device
        self._work = allocate_question(sizes, dtype, device, buffers)
        self._table = QuestionTable(sizes.num_layers, device)
        self._ids, self._places = torch.zeros(2, sizes.tokens, dtype=torch.int64, device=device)
        torch.arange(sizes.tokens, out=self._places)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._logits = torch.zeros(0, device=device)
        self.num_selected = torch.zeros((), dtype=torch.int64, device=device)

    @property
    def pool(self) -> Any:
        """The memory pool of the captured graph; None if passes are no replays of one."""
        return None if self._graph is None else self._graph.pool()

    @torch.inference_mode()
    def warm_up(self) -> None:
        """Take a pass without a question; a fault in it is raised here."""
        self._logits = torch.empty_like(self._pass())
        self._take_pass()
        if self._logits.is_cuda:
            torch.cuda.synchronize()

    def capture(self, pool: Any) -> None:
        """Capture the pass in a CUDA graph, after a warm-up.

        Args:
            pool: memory that it shares with graphs on the same stream; None for its own.
        Raises: RuntimeError where something in the pass waits for the host.
        """
        self._graph = capture_pass(self._take_pass, pool)

    @torch.inference_mode()
    def run(self, ids: Tensor, asked: AskedQuestion) -> Tensor:
        """Take a pass; nothing waits for the device.

        Args:
            ids: the question's tokens, on the model's device; the sizes take them.
            asked: the question. Keys and values of earlier tokens are in `own` already.
        Returns: logits (vocabulary,) fp32 after the last token, the caller's to keep.
        """
        self._table.write(asked)
        self._ids[: len(ids)].copy_(ids)
        if self._graph is None:
            self._take_pass()
        else:
            self._graph.replay()
        return self._logits[0].clone()

    def own(self, num_tokens: int) -> Tensor:
        """Keys and values of the first tokens behind the document, which every pass overwrites.

        Returns: a view (layers, 2, kv_heads, num_tokens, head_dim).
        """
        return self._work.own[:, :, :, :num_tokens]

    def attend(self, call: AttentionCall) -> Tensor:
        """Write the question's keys and values to their places, and attend.

        Returns: outputs (heads, tokens, head_dim) in the query's dtype.
        """
        layer = self._layers[call.layer]
        inputs = QuestionInputs(
            query=call.query,
            key=call.key,
            value=call.value,
            table=self._table,
            documents=self._documents,
            layer=call.layer,
            retrieval=layer.retrieval,
            scoring=Scoring(call.scale, call.softcap, self._aggregation),
            window=layer.window,
            sink_logits=call.sink_logits,
        )
        return attend_question(inputs, self._work).transpose(0, 1)

    @torch.inference_mode()
    def _take_pass(self) -> None:
        self._logits.copy_(self._pass())
        torch.sum(self._work.counts, dim=(0, 1), dtype=torch.int64, out=self.num_selected)

    def _pass(self) -> Tensor:
        """Compute the logits (1, vocabulary) after the question's last token."""
        last = self._table.last
        positions = torch.minimum(self._places, last) + self._table.position  # padding: the last's
        return forward(self._model, self._ids, positions, self, keep=last)
