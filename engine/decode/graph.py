"""One decoding pass over a resident document at fixed addresses, so that it can be a CUDA graph."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from common.errors import UnsupportedModel
from engine.attend.budget import ReadMeter
from engine.decode.captured_pass import CapturedPass
from engine.decode.layer_view import resident_layer
from engine.decode.side_stream import SideStream
from engine.document.budget import Thresholds
from engine.document.cache import DocumentCache, LayerCache
from engine.kernels.decode.append_keys import append_keys
from engine.kernels.decode.decode_attention import decode_attention, supports
from engine.kernels.decode.inputs import (
    DecodeInputs,
    QuestionKeys,
    ResidentLayer,
    Scoring,
    StepSizes,
    sizes_of,
)
from engine.kernels.decode.workspace import Workspace, allocate
from engine.kernels.shared.accumulate_attention_mass import (
    AttendedTokens,
    AttentionMassInputs,
    accumulate_attention_mass,
)
from engine.model.attention import AttentionCall, forward
from engine.model.spec import ModelSpec

LOWEST_THRESHOLD = -1e30  # selects every cluster that holds a token
WARM_UP_PASSES = 2  # in which kernels are compiled and libraries choose theirs


@dataclass(frozen=True)
class GraphLayer:
    """What one layer's part of a pass reads and writes."""

    resident: ResidentLayer
    question: QuestionKeys
    work: Workspace
    scoring: Scoring
    positions: Tensor
    log_weights: Tensor | None = None  # of retrieval heads in evidence (heads, 1); None: all alike


class DecodeGraph:
    """A pass of one token over one document, for one question at a time; an `AttentionState`.

    Nothing in a pass waits for the host: the token, its slot, thresholds, what is read and the
    evidence's mass are all in tensors that stay where they are.

    Args:
        spec: the model's attention layers.
        document: resident on the model's device, in its dtype. Its tensors are kept alive, the
            object is not.
        capacity: tokens that question and answer may have together.

    Attributes:
        layers: what each layer's part of a pass reads and writes.
        slot: the token's place among the question's own tokens (1,) int64.

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
        most_heads = max(layer.num_kv_heads for layer in spec.layers)
        self._side_stream = SideStream(device)  # evidence is collected beside the layers
        self._widths = sorted({_vector_bytes(layer) for layer in document.layers})
        size = (len(self._widths), 2, most_heads, 1)
        self._read_counts = torch.zeros(size, dtype=torch.int64, device=device)
        per_read = [[2 * width, width] for width in self._widths]  # of a token, and of a centroid
        self._bytes_per_read = torch.tensor(per_read, device=device)[:, :, None, None]
        self._mass = torch.zeros(document.num_tokens, device=device)
        self.layers = self._make_layers(spec, document)
        self._fixed_bytes = fixed_bytes(document)
        self._full_bytes = full_bytes(document)
        self._windowed_bytes = windowed_bytes(document)
        self._num_used = 0
        self._read_bytes = torch.zeros((), dtype=torch.int64, device=device)
        self._logits = torch.zeros(0, device=device)
        self._captured = CapturedPass()

    @property
    def pool(self) -> Any:
        """The memory pool of the captured graphs; None if passes are no replays of them."""
        return self._captured.pool

    @property
    def mass(self) -> Tensor:
        """Squared attention weights of the question's passes by place in the document (tokens,)."""
        return self._mass

    @torch.inference_mode()
    def warm_up(self, model: nn.Module) -> None:
        """Take a few passes whose results are discarded; a fault in them is raised here.

        Args:
            model: runs all passes from now on; its weights must stay where they are.
        """
        self._model = model
        self._logits = torch.empty_like(self._pass())
        for _ in range(WARM_UP_PASSES):
            self._take_pass()
        if self._token.is_cuda:
            torch.cuda.synchronize()

    def capture(self, pool: Any) -> None:
        """Capture the pass in CUDA graphs, after a warm-up.

        Args:
            pool: memory that they share with graphs on the same stream; None for their own.
        Raises: RuntimeError where something in the pass waits for the host, or is done by it.
        """
        if not self._token.is_cuda:
            raise RuntimeError("Passes on a CPU cannot be captured.")
        self._captured.capture(self._take_pass, pool)

    @torch.inference_mode()
    def begin(self, keys_and_values: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Take a question over after its prefill.

        Args:
            keys_and_values: the question's own, by layer (kv_heads, tokens, head_dim).
        Raises: UnsupportedModel if it has more tokens than this graph has room for.
        """
        parts = tuple(keys_and_values)
        self._num_used = parts[0][0].shape[1]
        self._check_room()
        for layer, (keys, values) in zip(self.layers, parts, strict=True):
            layer.question.keys[0, :, : self._num_used] = keys
            layer.question.values[0, :, : self._num_used] = values
        self._lengths.fill_(self._num_used)
        self._mass.zero_()

    @torch.inference_mode()
    def run(self, token: Tensor, thresholds: Thresholds, meter: ReadMeter) -> Tensor:
        """Take a pass with `token` (1,) int64.

        Args:
            meter: is told the bytes that the pass reads, without waiting for the GPU.
        Returns: logits (vocabulary,) fp32, which hold until the next pass.
        Raises: UnsupportedModel if the capacity is used up.
        """
        self._num_used += 1
        self._check_room()
        self._thresholds[0].fill_(max(thresholds.level1, LOWEST_THRESHOLD))
        self._thresholds[1].fill_(max(thresholds.level2, LOWEST_THRESHOLD))
        self._token.copy_(token)
        if self._captured.is_captured:
            self._captured.replay()
        else:
            self._take_pass()
        read = self._read_bytes + self._fixed_bytes
        meter.add_pass(read, self._full_bytes, self._windowed_bytes)
        return self._logits

    def attend(self, call: AttentionCall) -> Tensor:
        """Write the token's key and value to their place, and attend to document and question.

        Returns: outputs (heads, 1, head_dim) in the query's dtype.
        """
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
        self._side_stream.join()  # as layers share workspaces
        self._captured.cut_before(call.layer)
        inputs = DecodeInputs(
            query,
            layer.resident,
            layer.question,
            self._thresholds,
            layer.scoring,
            call.sink_logits,
        )
        out = decode_attention(inputs, layer.work)
        with self._side_stream.branch(query):  # while the layer goes on
            self._collect_evidence(layer, query)
        return out.transpose(0, 1)

    @torch.inference_mode()
    def _take_pass(self) -> None:
        """Take a pass, and leave its logits and the bytes it read in their fixed places."""
        self._logits.copy_(self._pass())
        read_bytes = self._read_counts * self._bytes_per_read
        torch.sum(read_bytes, dim=(0, 1, 2, 3), out=self._read_bytes)

    def _pass(self) -> Tensor:
        """Compute the logits (vocabulary,) after the token; counted reads are of this pass."""
        self._read_counts.zero_()
        self.slot.copy_(self._lengths)
        self._lengths += 1
        assert self._model is not None  # it was warmed up
        logits = forward(self._model, self._token, self.slot + self._num_tokens, self)[-1]
        self._side_stream.join()
        return logits

    def _collect_evidence(self, layer: GraphLayer, query: Tensor) -> None:
        """Add the weights that retrieval heads gave to document tokens to the evidence's mass.

        A layer with a window shows how close a token is, not what is asked about: it adds nothing.
        """
        work, sizes = layer.work, layer.work.sizes
        if sizes.retrieval == 0 or layer.resident.window is not None:
            return
        heads = sizes.retrieval * sizes.group
        rows = query[0, :heads].view(sizes.retrieval, sizes.group, sizes.head_dim)
        if sizes.num_clusters == 0:  # then nothing was listed, and totals mean nothing
            work.num_segments.zero_()
        lse = work.lse[0, :heads].view(sizes.retrieval, sizes.group)
        if layer.log_weights is not None:  # squares then count by their heads' weights
            lse = lse - 0.5 * layer.log_weights
        attended = AttendedTokens(
            work.segments, work.num_segments, work.tuning.segment_size, work.token_scores
        )
        inputs = AttentionMassInputs(
            query=rows,
            lse=lse,
            keys=layer.resident.keys,
            positions=layer.positions,
            attended=attended,
            num_anchors=sizes.num_anchors,
            scale=layer.scoring.scale,
            softcap=layer.scoring.softcap,
        )
        accumulate_attention_mass(self._mass, inputs)

    def _make_layers(self, spec: ModelSpec, document: DocumentCache) -> tuple[GraphLayer, ...]:
        workspaces: dict[StepSizes, Workspace] = {}
        layers: list[GraphLayer] = []
        device, profile = document.layers[0].keys.device, document.profile
        log_weights = None if profile is None else profile.log_weights(device)
        for layer, cache in zip(spec.layers, document.layers, strict=True):
            resident = resident_layer(cache, document.lookup)
            shape = (1, layer.num_kv_heads, self.capacity, layer.head_dim)
            keys, values = (torch.zeros(shape, dtype=cache.keys.dtype, device=cache.keys.device)
                            for _ in range(2))  # fmt: skip
            question = QuestionKeys(keys, values, self._lengths)
            sizes = sizes_of(resident, question, layer.num_heads, has_sinks=layer.has_sink_logits)
            if not supports(sizes):
                raise UnsupportedModel(
                    f"There is no decode kernel for {sizes.num_keys} keys of {sizes.head_dim}."
                )
            if sizes not in workspaces:
                workspaces[sizes] = self._workspace(sizes, keys)
            scoring = Scoring(layer.scale, layer.softcap, document.lookup.aggregation)
            layers.append(
                GraphLayer(
                    resident,
                    question,
                    workspaces[sizes],
                    scoring,
                    cache.positions,
                    None
                    if log_weights is None
                    else log_weights[len(layers), : cache.num_retrieval, None],
                )
            )
        return tuple(layers)

    def _workspace(self, sizes: StepSizes, keys: Tensor) -> Workspace:
        """Allocate a workspace that counts into the counters of all layers of its width."""
        work = allocate(sizes, keys.dtype, keys.device, keep_token_scores=True)
        width = self._widths.index(sizes.head_dim * keys.element_size())
        return replace(work, read_counts=self._read_counts[width, :, : sizes.retrieval])

    def _check_room(self) -> None:
        if self._num_used > self.capacity:
            raise UnsupportedModel(
                f"Question and answer have {self._num_used} tokens, more than {self.capacity}."
            )


def fixed_bytes(document: DocumentCache) -> int:
    """Bytes that every pass reads, whatever is selected."""
    levels = document.lookup.levels
    return sum(
        layer.fixed_vectors(levels) * _vector_bytes(layer) for layer in document.budgeted_layers
    )


def whole_bytes(document: DocumentCache) -> int:
    """Bytes of a pass that reads all that is kept of the document, without a lookup."""
    return sum(
        (layer.constant_vectors + 2 * layer.num_clustered) * _vector_bytes(layer)
        for layer in document.budgeted_layers
    )


def full_bytes(document: DocumentCache) -> int:
    """Bytes that full attention reads in a pass."""
    return sum(layer.full_vectors * _vector_bytes(layer) for layer in document.budgeted_layers)


def _vector_bytes(layer: LayerCache) -> int:
    """Bytes of one of a layer's keys."""
    return layer.keys.shape[2] * layer.keys.element_size()


def windowed_bytes(document: DocumentCache) -> int:
    """Bytes that a pass reads in layers with a sliding window, which no budget counts."""
    windowed = (layer for layer in document.layers if layer.window is not None)
    return sum(layer.constant_vectors * _vector_bytes(layer) for layer in windowed)
