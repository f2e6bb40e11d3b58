"""What the references of a decode step's kernels share, in plain torch."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import pad

from engine.kernels.decode.inputs import DecodeInputs, Scoring, StepSizes
from engine.kernels.decode.tuning import Tuning
from engine.kernels.shared.scores import scores_reference
from engine.kernels.shared.sizes import ceil_div


def dense_keys(inputs: DecodeInputs, question: int, head: int) -> tuple[Tensor, Tensor, Tensor]:
    """Collect the dense keys of one KV head and one question.

    Dense keys are those that a token attends to without a lookup: the question's own, and either
    the anchors of a retrieval head or a streaming head's keys of the document. In a layer with a
    window they are those that the window shows.

    Args:
        inputs: what the step reads.
        question, head: which question of the batch, and which KV head.
    Returns: keys and values (keys, head_dim), and weights in nats (keys,) that are added to the
        scores.
    """
    layer, own = inputs.layer, inputs.question
    retrieval, length = len(layer.keys), int(own.lengths[question])
    first = 0 if layer.window is None else length - layer.window  # negative: of the document
    visible = slice(max(0, first), length)
    parts = [(own.keys[question, head, visible], own.values[question, head, visible])]
    log_weights = [torch.zeros(len(parts[0][0]), device=own.keys.device)]
    if head < retrieval:
        first = 0 if layer.window is None else layer.num_anchors + first
        anchors = slice(max(0, first), layer.num_anchors)
        parts.append((layer.keys[head, anchors], layer.values[head, anchors]))
        log_weights.append(torch.zeros(len(parts[1][0]), device=own.keys.device))
    elif layer.streaming is not None:
        streaming, index = layer.streaming, head - retrieval
        parts.append((streaming.keys[index], streaming.values[index]))
        log_weights.append(streaming.log_weights[index])
    keys, values = (torch.cat(part) for part in zip(*parts, strict=True))
    return keys, values, torch.cat(log_weights)


def sinks_of(sink_logits: Tensor, head: int, group: int) -> Tensor:
    """Return the sink logits of one KV head's query heads.

    Args:
        sink_logits: (num_heads,).
        head: a KV head.
        group: query heads per KV head.
    Returns: (group,) fp32.
    """
    return sink_logits[head * group : (head + 1) * group].float()


def raw_scores(query: Tensor, keys: Tensor, sizes: StepSizes, scoring: Scoring) -> Tensor:
    """Score keys or centroids with the rows of all questions.

    Args:
        query: (batch, num_heads, head_dim).
        keys: (retrieval, num_keys, head_dim).
        sizes, scoring: of the step.
    Returns: scaled and capped products (retrieval, num_keys, rows) in fp32; rows that only pad the
        tile are products with zeros.
    """
    s = sizes
    rows = query.reshape(s.batch, s.kv_heads, s.group, s.head_dim)[:, : s.retrieval]
    batch_pad = s.rows // s.group_pad
    rows = pad(rows, (0, 0, 0, s.group_pad - s.group, 0, 0, 0, batch_pad - s.batch))
    rows = rows.transpose(0, 1).flatten(1, 2)  # (retrieval, rows, head_dim)
    scores = scores_reference(rows, keys, scale=scoring.scale, softcap=scoring.softcap)
    return scores.transpose(1, 2)


def lookup_lse(cluster_lse: Tensor, dense_lse: Tensor, sizes: StepSizes, head: int) -> Tensor:
    """Return the logarithm of a lookup's denominator: all clusters and the dense keys.

    Args:
        cluster_lse: (retrieval, splits, rows), log-sum-exp over disjoint sets of clusters.
        dense_lse: (batch, kv_heads, dense splits, group), over disjoint sets of dense keys.
        sizes: of the step.
        head: a retrieval head.
    Returns: (rows,) fp32 in nats.
    """
    s, lse = sizes, cluster_lse[head].logsumexp(0)
    dense = torch.full_like(lse, -torch.inf).view(-1, s.group_pad)
    dense[: s.batch, : s.group] = dense_lse[:, head].logsumexp(1)
    return torch.logaddexp(lse, dense.flatten())


def reaches_threshold(
    scores: Tensor, lse: Tensor, thresholds: Tensor, sizes: StepSizes, scoring: Scoring
) -> Tensor:
    """Compare the aggregated shares of one head's clusters with each question's threshold.

    Args:
        scores: raw scores (clusters, rows).
        lse: logarithm of the denominator (rows,).
        thresholds: (batch,) fp32 in nats.
        sizes, scoring: of the step.
    Returns: (batch, clusters) bool: whether a question selects a cluster.
    """
    s = sizes
    shares = (scores - lse).view(len(scores), -1, s.group_pad)[:, : s.batch, : s.group]
    shares = shares.nan_to_num(-torch.inf, posinf=-torch.inf)  # where nothing was seen at all
    mean = shares.logsumexp(2) - math.log(s.group)
    aggregated = shares.amax(2) if scoring.by_maximum else mean  # (clusters, batch)
    selected: Tensor = (aggregated >= thresholds) & (aggregated > -torch.inf)
    return selected.T


def split_segments(num_segments: Tensor, tuning: Tuning) -> Iterator[tuple[int, int, slice]]:
    """Divide the listed segments evenly between the programs of `attend_runs`.

    The segments of all heads are laid end to end and cut into equal shares.

    Args:
        num_segments: (retrieval,) int32, as `select_runs` leaves it.
        tuning: of the step.
    Returns: for every program and every head of which it has segments: the program, the head, and
        which of the head's segments these are.
    """
    counts, t = num_segments.tolist(), tuning
    step = t.attend_block // t.segment_size
    share = ceil_div(ceil_div(sum(counts), t.attend_programs), step) * step
    begin = 0
    for head, count in enumerate(counts):
        for program in range(t.attend_programs):
            first = max(program * share - begin, 0)
            last = min((program + 1) * share - begin, count)
            if first < last:
                yield program, head, slice(first, last)
        begin += count
