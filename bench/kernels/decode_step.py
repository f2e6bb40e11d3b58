"""A synthetic layer as a decode step reads it, thresholds for a sparsity, and its bytes."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bench.kernels.layer import Layer, Shape, draw_queries
from engine.kernels.decode.decode_attention import (
    DecodeResult,
    decode_attention,
    decode_attention_reference,
)
from engine.kernels.decode.inputs import (
    DecodeInputs,
    QuestionKeys,
    ResidentLayer,
    Scoring,
    StepSizes,
    StreamingKeys,
    sizes_of,
    upper_level,
)
from engine.kernels.decode.reference_helpers import dense_keys
from engine.kernels.decode.score_centroids_and_attend_dense import score_centroids_and_attend_dense
from engine.kernels.decode.score_children import score_children
from engine.kernels.decode.select_runs import select_runs
from engine.kernels.decode.tuning import Tuning, default_tuning
from engine.kernels.decode.workspace import Workspace, allocate
from engine.kernels.shared.score_clusters import aggregate, log_cluster_scores
from engine.kernels.shared.scores import scores_reference

QUESTION_CAPACITY, QUESTION_TOKENS = 512, 96
STREAMING_KEYS = 64 + 256 + 1  # sinks, window, compensation token
MARGIN = 1e-4  # nats below the last vote that is kept: rounding does not decide over it
UPPER_KEPT = 2.5  # share of level-1 clusters kept over the share of tokens to load


@dataclass(frozen=True)
class Step:
    """One layer's decode step for a batch of questions."""

    query: Tensor
    layer: ResidentLayer
    question: QuestionKeys
    thresholds: Tensor
    scoring: Scoring
    sink_logits: Tensor | None = None

    @property
    def batch(self) -> int:
        """Questions."""
        return self.query.shape[0]

    @property
    def inputs(self) -> DecodeInputs:
        """As the operation takes it."""
        return DecodeInputs(
            self.query,
            self.layer,
            self.question,
            self.thresholds,
            self.scoring,
            self.sink_logits,
        )

    @property
    def sizes(self) -> StepSizes:
        """Of its workspaces."""
        has_sinks = self.sink_logits is not None
        return sizes_of(self.layer, self.question, self.query.shape[1], has_sinks=has_sinks)

    def workspace(self, tuning: Tuning | None = None) -> Workspace:
        """Buffers that steps of the same sizes can share."""
        return allocate(self.sizes, self.query.dtype, self.query.device, tuning)

    def tuning(self) -> Tuning:
        """The default."""
        return default_tuning(self.sizes, self.query.element_size())

    def attend(self, work: Workspace) -> Tensor:
        """All of it."""
        return decode_attention(self.inputs, work)

    def look_up(self, work: Workspace) -> None:
        """All but attention to clustered tokens, and the merge."""
        inputs = self.inputs
        score_centroids_and_attend_dense(inputs, work)
        if self.layer.upper is not None:
            score_children(inputs, work)
        select_runs(inputs, work)

    def define(self) -> DecodeResult:
        """What it is to find."""
        return decode_attention_reference(self.inputs)


def draw_step(
    shape: Shape, layer: Layer, seed: int, *, batch: int, levels: int, streaming: int
) -> Step:
    """A step over a synthetic layer; every other head streams, if any; nothing is left out."""
    device = str(layer.keys.device)
    generator = torch.Generator(device).manual_seed(seed)

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=generator, device=device).to(layer.keys.dtype)

    heads = torch.arange(shape.kv_heads, device=device)
    apart = heads[1::2][:streaming]  # flat and sharp heads alike
    heads = torch.cat((heads[~torch.isin(heads, apart)], apart))
    kept = heads[: shape.kv_heads - streaming]
    query = draw_queries(shape, batch, seed, device).to(layer.keys.dtype)
    query = query.view(batch, shape.kv_heads, -1, shape.head_dim)[:, heads].flatten(1, 2)
    own = (batch, shape.kv_heads, QUESTION_CAPACITY, shape.head_dim)
    lengths = torch.full((batch,), QUESTION_TOKENS, dtype=torch.int32, device=device)
    log_weights = torch.zeros(streaming, STREAMING_KEYS, device=device)
    log_weights[:, -1] = torch.tensor(float(shape.num_keys)).log()
    size = (streaming, STREAMING_KEYS, shape.head_dim)

    def of_kept(tensor: Tensor) -> Tensor:
        return tensor[kept] if streaming else tensor

    return Step(
        query.contiguous(),
        ResidentLayer(
            of_kept(layer.keys),
            of_kept(layer.values),
            layer.num_anchors,
            of_kept(layer.centroids),
            of_kept(layer.offsets),
            upper_level(
                of_kept(layer.upper_centroids),
                of_kept(layer.upper_offsets),
                of_kept(layer.offsets),
            )
            if levels == 2
            else None,
            StreamingKeys(normal(*size), normal(*size), log_weights) if streaming else None,
        ),
        QuestionKeys(normal(*own), normal(*own), lengths),
        torch.full((2, batch), -1e30, device=device),
        Scoring(shape.scale),
    )


def with_sparsity(step: Step, percent: int) -> Step:
    """The step with thresholds that leave out that share of the clustered tokens, over all heads.

    With two levels, level 1 keeps `UPPER_KEPT` times as large a share of its clusters.
    """
    layer, load = step.layer, 1 - percent / 100
    votes, sizes = _votes(step, layer.centroids, layer.offsets), layer.offsets.diff()
    thresholds = step.thresholds.clone()
    if layer.upper is not None:
        upper = layer.upper
        above = _votes(step, upper.centroids, upper.token_offsets)
        ranked = above.flatten().sort(descending=True).values
        last = min(int(len(ranked) * UPPER_KEPT * load), len(ranked) - 1)
        thresholds[0] = ranked[last] - MARGIN
        for head, children in enumerate(upper.offsets.diff()):
            keep = (above[:, head] >= thresholds[0, 0]).repeat_interleave(children, 1)
            votes[:, head].masked_fill_(~keep, -torch.inf)
    ranked, order = votes.flatten().sort(descending=True)
    loaded = sizes.expand_as(votes).flatten()[order].double().cumsum(0)
    most = sizes.sum() * step.batch
    last = min(int(torch.searchsorted(loaded, most * load)), int((ranked > -torch.inf).sum()) - 1)
    thresholds[1] = ranked[last] - MARGIN
    return replace(step, thresholds=thresholds)


def _votes(step: Step, centroids: Tensor, offsets: Tensor) -> Tensor:
    """Votes (batch, retrieval, clusters) in nats, with nothing pruned."""
    kv_heads, scoring = step.question.keys.shape[1], step.scoring
    rows = step.query.view(step.batch, kv_heads, -1, step.query.shape[2])[:, : len(centroids)]
    votes = []
    for asked, each in enumerate(rows):
        mass = [
            scores_reference(
                each[head][None],
                dense_keys(step.inputs, asked, head)[0][None],
                scale=scoring.scale,
                softcap=scoring.softcap,
            )[0].logsumexp(-1)
            for head in range(len(each))
        ]
        shares = log_cluster_scores(
            each,
            centroids,
            offsets.diff(),
            scale=scoring.scale,
            softcap=scoring.softcap,
            extra_lse=torch.stack(mass),
        )
        votes.append(aggregate(shares, each.shape[1], scoring.aggregation))
    return torch.stack(votes)


def bytes_needed(step: Step, found: DecodeResult) -> float:
    """Bytes that a step cannot do without: each centroid, key and value once for all questions."""
    layer, vector = step.layer, step.query.shape[2] * step.query.element_size()
    near = layer.keys.shape[0] * layer.num_anchors
    near += step.batch * step.question.keys.shape[1] * QUESTION_TOKENS
    if layer.streaming is not None:
        near += layer.streaming.log_weights.numel()
    tokens = int((found.selected.any(0) * layer.offsets.diff()).sum())
    if layer.upper is None:
        centroids = layer.centroids.shape[0] * layer.centroids.shape[1]
    else:
        over = layer.upper.centroids
        # What several questions keep below level 1 may overlap: at least what one of them does.
        centroids = over.shape[0] * over.shape[1] + int(found.read_counts[1].amax(1).sum())
    return float(vector * (2 * (near + tokens) + centroids))


def recall(one_level: DecodeResult, hierarchical: DecodeResult, sizes: Tensor) -> float:
    """Share of the tokens that one-level lookup keeps which hierarchical lookup keeps too."""
    both = (one_level.selected & hierarchical.selected) * sizes
    return float(both.sum() / (one_level.selected * sizes).sum())
