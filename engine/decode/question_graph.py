"""A prefill pass of a few questions, about any documents, in CUDA graphs."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from engine.decode.batch_graph import BatchLayer, few_of_each_kind
from engine.decode.captured_pass import CapturedPass
from engine.decode.model_variants import with_few_layers
from engine.decode.side_stream import SideStream
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
    """A prefill of questions of as many tokens as their sizes say; an `AttentionState`.

    Linear layers multiply for the tokens of all questions at once, so that weights are read once.
    Each question attends on its own, beside the others, in the kernels of a single one.

    Questions and documents are found in tables, so that the pass is captured once, before there is
    any document.

    Args:
        model: whose weights stay where they are.
        sizes: tokens of each question, and how much its document may have.
        layers: of the model.
        documents: that questions are about.
        aggregation: how a group's scores are aggregated (`LookupConfig`).
        dtype: of the model.
        buffers: for each question of a pass, memory that it shares with other graphs, which are not
            replayed meanwhile.

    Attributes:
        num_questions: that a pass takes at most.
        num_selected: (num_questions,) int64 on the device: clustered tokens that each question
            selected in the last pass, over all layers and heads.
    """

    def __init__(
        self,
        model: nn.Module,
        sizes: QuestionSizes,
        layers: Sequence[BatchLayer],
        documents: DocumentTable,
        aggregation: str,
        dtype: torch.dtype,
        buffers: Sequence[Buffers],
    ) -> None:
        self.sizes, self.num_questions = sizes, len(buffers)
        self._model, self._layers = model, layers
        self._documents, self._aggregation = documents, aggregation
        device, shape = documents.records.device, (len(buffers), sizes.tokens)
        out_shape = (*shape, sizes.num_heads, sizes.head_dim)
        # A view of a flat tensor, as a decoding pass's: for others layers would be compiled anew.
        self._out = torch.zeros(prod(out_shape), dtype=dtype, device=device).view(out_shape)
        self._works = [
            replace(allocate_question(sizes, dtype, device, each), out=out)
            for each, out in zip(buffers, self._out, strict=True)
        ]
        self._tables = [QuestionTable(sizes.num_layers, device) for _ in buffers]
        self._side_streams = [SideStream(device) for _ in buffers[1:]]
        self._ids = torch.zeros(shape, dtype=torch.int64, device=device)
        self._places = torch.arange(sizes.tokens, device=device)
        self._starts = torch.arange(len(buffers), device=device) * sizes.tokens
        self._captured = CapturedPass()
        self._logits = torch.zeros(0, device=device)
        self.num_selected = torch.zeros(len(buffers), dtype=torch.int64, device=device)

    @property
    def pool(self) -> Any:
        """The memory pool of the captured graphs; None if passes are no replays of them."""
        return self._captured.pool

    @torch.inference_mode()
    def prepare(self, pool: Any) -> None:
        """Take a pass without a question, for which kernels are compiled, and on a GPU capture it.

        Args:
            pool: memory that captured passes share on the same device; None for their own.
        Raises: what the model, a compiler or a driver may raise; RuntimeError where something in
            the pass waits for the host.
        """
        if self._ids.is_cuda:  # layers are compiled in the first pass, so that runs all of them
            warm_up = None if pool is None else self._take_few_layers
            self._captured.capture(self._take_pass, pool, warm_up)
        else:
            self._take_pass()

    @torch.inference_mode()
    def run(self, questions: Sequence[tuple[Tensor, AskedQuestion]]) -> Tensor:
        """Take a pass; nothing waits for the device.

        Args:
            questions: the tokens of each, on the model's device, and what it is; the sizes take
                them. Keys and values of earlier tokens are in `own` already.
        Returns: logits (questions, vocabulary) fp32 after the last token of each, the caller's to
            keep.
        """
        for place, (ids, asked) in enumerate(questions):
            self._tables[place].write(asked)
            self._ids[place, : len(ids)].copy_(ids)
        for table in self._tables[len(questions) :]:
            table.clear()
        if self._captured.is_captured:
            self._captured.replay()
        else:
            self._take_pass()
        return self._logits[: len(questions)].clone()

    def own(self, question: int, num_tokens: int) -> Tensor:
        """Keys and values of the first tokens behind a question's document.

        Every pass overwrites them.

        Args:
            question: its place in the pass.
        Returns: a view (layers, 2, kv_heads, num_tokens, head_dim).
        """
        return self._works[question].own[:, :, :, :num_tokens]

    def attend(self, call: AttentionCall) -> Tensor:
        """Write the questions' keys and values to their places, and attend.

        Returns: outputs (heads, tokens, head_dim) in the query's dtype.
        """
        self._captured.cut_before(call.layer)
        for place, side_stream in enumerate(self._side_streams, start=1):
            with side_stream.branch(call.query, call.key, call.value):
                self._attend_question(call, place)
        self._attend_question(call, 0)
        for side_stream in self._side_streams:
            side_stream.join()
        return self._out.flatten(0, 1).transpose(0, 1)

    def _attend_question(self, call: AttentionCall, place: int) -> None:
        """Attend for the tokens of one question; its part of the outputs is written."""
        layer = self._layers[call.layer]
        tokens = slice(place * self.sizes.tokens, (place + 1) * self.sizes.tokens)
        inputs = QuestionInputs(
            query=call.query[:, tokens],
            key=call.key[:, tokens],
            value=call.value[:, tokens],
            table=self._tables[place],
            documents=self._documents,
            layer=call.layer,
            retrieval=layer.retrieval,
            scoring=Scoring(call.scale, call.softcap, self._aggregation),
            window=layer.window,
            sink_logits=call.sink_logits,
        )
        attend_question(inputs, self._works[place])

    def _take_few_layers(self) -> None:
        """Take a pass through a few layers of each kind. Raises: as `with_few_layers`."""
        kept = few_of_each_kind(self._layers)
        self._take_pass(with_few_layers(self._model, len(self._layers), kept))

    @torch.inference_mode()
    def _take_pass(self, model: nn.Module | None = None) -> None:
        """Take a pass.

        Args:
            model: that runs it; None for the one that runs all passes.
        """
        logits = self._pass(model or self._model)
        if self._logits.shape != logits.shape:  # the first pass
            self._logits = torch.empty_like(logits)
        self._logits.copy_(logits)
        for selected, work in zip(self.num_selected, self._works, strict=True):
            torch.sum(work.counts, dim=(0, 1), dtype=torch.int64, out=selected)

    def _pass(self, model: nn.Module) -> Tensor:
        """Compute the logits (questions, vocabulary) after each question's last token."""
        last = torch.cat([table.last for table in self._tables])
        first = torch.cat([table.position for table in self._tables])
        places = torch.minimum(self._places, last[:, None])  # padding: the last token's
        positions = (places + first[:, None]).flatten()
        keep = last + self._starts
        return forward(model, self._ids.flatten(), positions, self, keep=keep)
