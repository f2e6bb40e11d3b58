"""A pass of questions' prefills whose layers are CUDA graphs, with attention launched in between.

What a model does to single tokens is the same for every document, so it is captured once for a
number of tokens, in one piece from each layer's attention to the next one's. What a question
attends to differs in size from document to document and is launched between the pieces, as it is
without a graph. Source: piecewise capture, as vLLM does it.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from engine.decode.packed_pass import PackedTokens
from engine.model.attention import AttentionCall, forward
from engine.model.spec import LayerSpec

MAX_PARTS = 8  # of a pass
CAPTURE_MODE = "thread_local"  # other threads may use the device meanwhile


class PrefillBuffers:
    """The tensors through which captured pieces and attention hand each other their results.

    Graphs that are not replayed at the same time share them.

    Args:
        layer: of the model; all its layers have as many heads of the same width.
        size: tokens of a pass at most.

    Attributes:
        logits: (MAX_PARTS, vocabulary) fp32 of the last pass; empty before a graph is warmed up.
    """

    def __init__(
        self, layer: LayerSpec, size: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._layer = layer
        width = layer.head_dim * size
        self._query, self._out = torch.zeros(
            2, layer.num_heads * width, dtype=dtype, device=device
        ).unbind()
        self._own = torch.zeros(2 * layer.num_kv_heads * width, dtype=dtype, device=device)
        self.logits = torch.zeros(MAX_PARTS, 0, device=device)

    def query(self, size: int) -> Tensor:
        """The queries of a pass of so many tokens (heads, size, head_dim)."""
        return self._shaped(self._query, self._layer.num_heads, size)

    def out(self, size: int) -> Tensor:
        """What attention gives (heads, size, head_dim)."""
        return self._shaped(self._out, self._layer.num_heads, size)

    def own(self, size: int) -> Tensor:
        """Keys and values of the pass's tokens (2, kv_heads, size, head_dim)."""
        heads = self._layer.num_kv_heads
        return self._shaped(self._own, 2 * heads, size).view(2, heads, size, -1)

    def _shaped(self, flat: Tensor, heads: int, size: int) -> Tensor:
        width = self._layer.head_dim
        return flat[: heads * size * width].view(heads, size, width)


@dataclass(frozen=True)
class _Piece:
    """What is computed up to a layer's attention.

    Attributes:
        graph: the captured piece.
        call: of that layer, whose tensors are the buffers; None behind the last layer.
    """

    graph: torch.cuda.CUDAGraph
    call: AttentionCall | None


class PrefillGraph:
    """A pass of as many tokens of any questions about any documents; an `AttentionState`.

    Args:
        model: whose weights stay where they are.
        size: tokens of the pass; fewer are padded.
        buffers: at least as large.
    """

    def __init__(self, model: nn.Module, size: int, buffers: PrefillBuffers) -> None:
        self.size = size
        self._model, self._buffers = model, buffers
        self._query, self._out = buffers.query(size), buffers.out(size)
        self._own = buffers.own(size)
        device = self._query.device
        self._ids, self._positions = torch.zeros(2, size, dtype=torch.int64, device=device)
        self._ends = torch.zeros(MAX_PARTS, dtype=torch.int64, device=device)
        self._parts: Sequence[PackedTokens] = ()
        self._pieces: list[_Piece] = []
        self._capturing: torch.cuda.CUDAGraph | None = None
        self._pool: Any = None

    @property
    def pool(self) -> Any:
        """The memory pool of the captured pieces; None if passes are no replays of them."""
        return self._pool

    @torch.inference_mode()
    def warm_up(self) -> None:
        """Take a pass without questions; a fault in it is raised here."""
        self._parts = ()
        logits = self._pass()
        if (
            self._buffers.logits.shape != logits.shape
        ):  # which captured pieces write to from then on
            self._buffers.logits = torch.zeros_like(logits)

    @torch.inference_mode()
    def capture(self, pool: Any) -> None:
        """Capture the pieces, after a warm-up.

        Args:
            pool: memory that they share with graphs on the same stream; None for their own.
        Raises: RuntimeError where something in the pass waits for the host.
        """
        self._parts = ()
        self._pool = torch.cuda.graph_pool_handle() if pool is None else pool
        current = torch.cuda.current_stream()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(current)
        try:
            with torch.cuda.stream(stream):
                self._pass()  # libraries set themselves up once a stream
                torch.cuda.synchronize()
                self._begin_piece()
                self._buffers.logits.copy_(self._pass())
                self._end_piece(None)
        except BaseException:
            self._pieces = []
            if self._capturing is not None:
                with suppress(RuntimeError):  # which says once more what went wrong
                    self._capturing.capture_end()
                self._capturing = None
            raise
        finally:
            torch.cuda.set_stream(current)
        current.wait_stream(stream)

    @torch.inference_mode()
    def run(self, parts: Sequence[PackedTokens]) -> Tensor:
        """Take a pass.

        Args:
            parts: at most `MAX_PARTS`, of `size` tokens together at most, no question twice.
        Returns: logits (parts, vocabulary) fp32 after the last token of each part; they hold until
            the next pass of a graph that shares the buffers.
        """
        self._write(parts)
        self._parts = parts
        try:
            if not self._pieces:
                self._buffers.logits.copy_(self._pass())
            for piece in self._pieces:
                piece.graph.replay()
                if piece.call is not None:
                    self._attend(piece.call)
        finally:
            self._parts = ()
        return self._buffers.logits[: len(parts)]

    def attend(self, call: AttentionCall) -> Tensor:
        """Take over a layer's queries, keys and values, and attend; see `AttentionState`."""
        self._query.copy_(call.query)
        self._own[0].copy_(call.key)
        self._own[1].copy_(call.value)
        call = replace(call, query=self._query, key=self._own[0], value=self._own[1])
        if self._capturing is None:
            self._attend(call)
        else:
            self._end_piece(call)
            self._begin_piece()
        return self._out

    def _attend(self, call: AttentionCall) -> None:
        """Let every question attend for its own tokens."""
        start = 0
        for part in self._parts:
            tokens = slice(start, start + len(part.ids))
            key, value = self._own[:, :, tokens].clone().unbind()  # which the question keeps
            mine = replace(call, query=self._query[:, tokens], key=key, value=value)
            self._out[:, tokens].copy_(part.state.attend(mine))
            start = tokens.stop

    def _write(self, parts: Sequence[PackedTokens]) -> None:
        """Bring ids, positions and ends of the questions' parts to the device."""
        positions: list[int] = []
        ends: list[int] = []
        for part in parts:
            first = part.state.position
            positions += range(first, first + len(part.ids))
            ends.append(len(positions) - 1)
        torch.cat([part.ids for part in parts], out=self._ids[: len(positions)])
        self._positions[: len(positions)].copy_(torch.tensor(positions))
        self._ends[: len(ends)].copy_(torch.tensor(ends))

    def _pass(self) -> Tensor:
        """Compute the logits (MAX_PARTS, vocabulary) after the parts' ends."""
        return forward(self._model, self._ids, self._positions, self, keep=self._ends)

    def _begin_piece(self) -> None:
        self._capturing = torch.cuda.CUDAGraph()
        self._capturing.capture_begin(self._pool, capture_error_mode=CAPTURE_MODE)

    def _end_piece(self, call: AttentionCall | None) -> None:
        assert self._capturing is not None
        self._capturing.capture_end()
        self._pieces.append(_Piece(self._capturing, call))
        self._capturing = None
