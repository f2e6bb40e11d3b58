"""One decoding pass over a resident document, at fixed addresses: it can be a CUDA graph."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from common.errors import UnsupportedModel
from engine.attend.question import QuestionState
from engine.attend.read_meter import ReadMeter
from engine.decode.layer_view import resident_layer
from engine.decode.side_stream import SideStream
from engine.document.budget_curve import Thresholds
from engine.document.cache import DocumentCache
from engine.kernels.decode.append_keys import append_keys
from engine.kernels.decode.decode_attention import decode_attention, supports
from engine.kernels.decode.inputs import DecodeInputs, QuestionKeys, ResidentLayer, Scoring
from engine.kernels.decode.step_sizes import StepSizes, sizes_of
from engine.kernels.decode.workspace import Workspace, allocate
from engine.kernels.shared.accumulate_attention_mass import (
    AttendedTokens,
    AttentionMassInputs,
    accumulate_attention_mass,
)
from engine.model.attention import AttentionCall, forward
from engine.model.spec import ModelSpec

NO_THRESHOLD = -1e30  # keeps every cluster that holds a token
WARM_UPS = 2  # passes in which kernels are compiled and libraries choose theirs


@dataclass(frozen=True)
class StepLayer:
    """What one layer's part of a pass reads and writes."""

    resident: ResidentLayer
    question: QuestionKeys
    work: Workspace
    scoring: Scoring
    positions: Tensor


class DecodeGraph:
    """A pass of one token over one document, for one question at a time; an `AttentionState`.

    Nothing in a pass waits for the host: the token, its place, thresholds, what is read and the
    evidence's mass are all in tensors that stay where they are.

    Args:
        spec: the model's attention layers.
        document: resident on the model's device, in its dtype; it is not kept alive, its tensors
            are.
        capacity: tokens that question and answer may have together.

    Attributes:
        layers: what each layer's part of a pass reads and writes.
        slot: the token's place among the question's own (1,) int64.

    Raises: UnsupportedModel with a sentence that says why a pass cannot be taken in this way.
    """

    def __init__(self, spec: ModelSpec, document: DocumentCache, capacity: int) -> None:
        self.capacity = capacity
        self._model: nn.Module | None = None
        self._num_tokens = document.num_tokens
        device = document.layers[0].keys.device
        self._token = torch.zeros(1, dtype=torch.int64, device=device)
        self._lengths = torch.zeros(1, dtype=torch.int32, device=device)
        self.slot = torch.zeros(1, dtype=torch.int64, device=device)
        self._thresholds = torch.zeros(2, 1, device=device)
        most = max(layer.num_kv_heads for layer in spec.layers)
        self._noting = SideStream(device)
        self._tally = torch.zeros(2, most, 1, dtype=torch.int64, device=device)
        self._mass = torch.zeros(document.num_tokens, device=device)
        self.layers = self._place(spec, document)
        self._vector = _vector_bytes(document)
        levels = document.lookup.levels
        vectors = sum(layer.fixed_vectors(levels) for layer in document.layers)
        self._fixed = vectors * self._vector
        each = torch.tensor((2, 1), device=device)  # vectors of a token, and of a centroid
        self._counted_bytes = (each * self._vector)[:, None, None]
        self._full = sum(layer.full_vectors for layer in document.layers) * self._vector
        self._used = 0
        self._read = torch.zeros((), dtype=torch.int64, device=device)
        self._logits = torch.zeros(0, device=device)
        self._graph: torch.cuda.CUDAGraph | None = None

    @property
    def pool(self) -> Any:
        """The memory pool of the captured graph; None if passes are no replays of one."""
        return None if self._graph is None else self._graph.pool()

    @property
    def mass(self) -> Tensor:
        """Squared attention weights of the question's passes by place in the document (tokens,)."""
        return self._mass

    @torch.inference_mode()
    def warm_up(self, model: nn.Module) -> None:
        """Take a few passes that mean nothing; whatever is wrong with them is raised here.

        Args:
            model: runs all passes from now on; its weights must stay where they are.
        """
        self._model = model
        self._logits = torch.empty_like(self._pass())
        for _ in range(WARM_UPS):
            self._take_pass()
        if self._token.is_cuda:
            torch.cuda.synchronize()

    def capture(self, pool: Any) -> None:
        """Capture the pass, after a warm-up, in a graph.

        Args:
            pool: memory that it shares with graphs on the same stream; None for its own.
        Raises: RuntimeError where something in the pass waits for the host, or is done by it.
        """
        if not self._token.is_cuda:
            raise RuntimeError("A CPU's passes are no graph.")
        current = torch.cuda.current_stream()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(current)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.stream(stream):
                self._take_pass()  # libraries set themselves up once a stream
            with torch.cuda.graph(
                graph, pool=pool, stream=stream, capture_error_mode="thread_local"
            ):
                self._take_pass()
        finally:
            torch.cuda.set_stream(current)  # a failed capture leaves its own
        current.wait_stream(stream)
        self._graph = graph

    @torch.inference_mode()
    def begin(self, question: QuestionState) -> None:
        """Take over a question after its prefill.

        Raises: UnsupportedModel if it has more tokens than this step has room for.
        """
        self._used = question.position - self._num_tokens
        self._check_room()
        for layer, (keys, values) in zip(self.layers, question.held(), strict=True):
            layer.question.keys[0, :, : self._used] = keys
            layer.question.values[0, :, : self._used] = values
        self._lengths.fill_(self._used)
        self._mass.zero_()

    @torch.inference_mode()
    def run(self, token: Tensor, thresholds: Thresholds | None, meter: ReadMeter) -> Tensor:
        """Take a pass with `token` (1,); thresholds None reads everything.

        Returns: logits (vocabulary,) fp32, until the next pass.
        Raises: UnsupportedModel if the capacity is used up.
        """
        self._used += 1
        self._check_room()
        level1, level2 = (
            (NO_THRESHOLD, NO_THRESHOLD)
            if thresholds is None
            else (thresholds.level1, thresholds.level2)
        )
        self._thresholds[0].fill_(level1)
        self._thresholds[1].fill_(level2)
        self._token.copy_(token)
        if self._graph is None:
            self._take_pass()
        else:
            self._graph.replay()
        meter.add_pass(self._read + self._fixed, self._full)
        return self._logits

    def attend(self, call: AttentionCall) -> Tensor:
        """Write the token's key and value to their place, and attend to document and question."""
        layer = self.layers[call.layer]
        append_keys(
            layer.question.keys[0],
            layer.question.values[0],
            call.key,
            call.value,
            self.slot,
            overlap=layer.work.tuning.overlap,
        )
        query = call.query.transpose(0, 1).contiguous()  # (1, heads, head_dim)
        self._noting.join()  # as layers share workspaces
        inputs = DecodeInputs(
            query, layer.resident, layer.question, self._thresholds, layer.scoring
        )
        out = decode_attention(inputs, layer.work)
        with self._noting.branch(query):  # while the layer goes on
            self._note(layer, query)
        return out.transpose(0, 1)

    @torch.inference_mode()
    def _take_pass(self) -> None:
        """Take a pass, and leave its logits and what it read where they can be found."""
        self._logits.copy_(self._pass())
        torch.sum(self._tally * self._counted_bytes, dim=(0, 1, 2), out=self._read)

    def _pass(self) -> Tensor:
        """Logits (vocabulary,) after the token; the tally is of this pass alone."""
        self._tally.zero_()
        self.slot.copy_(self._lengths)
        self._lengths += 1
        assert self._model is not None  # it was warmed up
        logits = forward(self._model, self._token, self.slot + self._num_tokens, self)[-1]
        self._noting.join()
        return logits

    def _note(self, layer: StepLayer, query: Tensor) -> None:
        """Add the weights of what retrieval heads attended to."""
        work, sizes = layer.work, layer.work.sizes
        if sizes.retrieval == 0:
            return
        heads = sizes.retrieval * sizes.group
        rows = query[0, :heads].view(sizes.retrieval, sizes.group, sizes.head_dim)
        if sizes.num_clusters == 0:  # then nothing was listed, and totals mean nothing
            work.num_segments.zero_()
        attended = AttendedTokens(
            work.segments, work.num_segments, work.tuning.segment_size, work.token_scores
        )
        inputs = AttentionMassInputs(
            query=rows,
            lse=work.lse[0, :heads].view(sizes.retrieval, sizes.group),
            keys=layer.resident.keys,
            positions=layer.positions,
            attended=attended,
            num_anchors=sizes.num_anchors,
            scale=layer.scoring.scale,
            softcap=layer.scoring.softcap,
        )
        accumulate_attention_mass(self._mass, inputs)

    def _place(self, spec: ModelSpec, document: DocumentCache) -> tuple[StepLayer, ...]:
        works: dict[StepSizes, Workspace] = {}
        placed = []
        for layer, cache in zip(spec.layers, document.layers, strict=True):
            resident = resident_layer(cache, document.lookup)
            shape = (1, layer.num_kv_heads, self.capacity, layer.head_dim)
            keys, values = (torch.zeros(shape, dtype=cache.keys.dtype, device=cache.keys.device)
                            for _ in range(2))  # fmt: skip
            question = QuestionKeys(keys, values, self._lengths)
            sizes = sizes_of(resident, question, layer.num_heads)
            if not supports(sizes):
                raise UnsupportedModel(
                    f"There is no decode kernel for {sizes.num_keys} keys of {sizes.head_dim}."
                )
            if sizes not in works:
                works[sizes] = self._workspace(sizes, keys)
            scoring = Scoring(layer.scale, layer.softcap, document.lookup.aggregation)
            placed.append(StepLayer(resident, question, works[sizes], scoring, cache.positions))
        return tuple(placed)

    def _workspace(self, sizes: StepSizes, keys: Tensor) -> Workspace:
        """A workspace that counts into the tally of all layers."""
        work = allocate(sizes, keys.dtype, keys.device, keep_token_scores=True)
        return replace(work, read_counts=self._tally[:, : sizes.retrieval])

    def _check_room(self) -> None:
        if self._used > self.capacity:
            raise UnsupportedModel(
                f"Question and answer have {self._used} tokens, more than {self.capacity}."
            )


def _vector_bytes(document: DocumentCache) -> int:
    """Bytes of a key.

    Raises: UnsupportedModel if layers differ.
    """
    found = {layer.keys.shape[2] * layer.keys.element_size() for layer in document.layers}
    if len(found) > 1:
        raise UnsupportedModel("Layers differ in the width of their heads.")
    return found.pop()
