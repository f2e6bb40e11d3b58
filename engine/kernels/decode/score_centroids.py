"""Near keys attended to and centroids scored, side by side: the first step of decoding."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from engine.kernels.decode.inputs import QuestionKeys, ResidentLayer, Scoring
from engine.kernels.decode.step_sizes import Sizes
from engine.kernels.decode.workspace import Workspace
from engine.kernels.shared.attend_keys import scores_reference


def survey(
    query: Tensor, layer: ResidentLayer, question: QuestionKeys, work: Workspace, scoring: Scoring
) -> None:
    """Attend to what every token sees, and score the centroids that every lookup reads.

    Near keys are a retrieval head's anchors, a streaming head's keys, and the question's own; their
    mass is the E of the lookup's denominator. Centroids, of level 1 if there is one, are read once
    for all questions.

    Args:
        query: (batch, num_heads, head_dim); the others as `decode_attention` has checked them.
    Fills: of `work` near_out and near_lse; scores and parts, or upper_scores and upper_parts; and
        counts with zeros.
    Source: Squeezed Attention, equations 1 and 2; RazorAttention, equation 5; Flash-Decoding.
    """
    if query.is_cuda:
        from engine.kernels.decode.triton.score_centroids import survey_triton

        survey_triton(query, layer, question, work, scoring)
    else:
        survey_reference(query, layer, question, work, scoring)


def survey_reference(
    query: Tensor, layer: ResidentLayer, question: QuestionKeys, work: Workspace, scoring: Scoring
) -> None:
    """See `survey`."""
    s = work.sizes
    work.near_out.zero_()
    work.near_lse.fill_(-torch.inf)
    work.counts.zero_()
    for asked in range(s.batch):
        rows = query[asked].reshape(s.kv_heads, s.group, s.head_dim)
        for head in range(s.kv_heads):
            keys, values, log_weights = near_keys(layer, question, asked, head)
            scores = (
                scores_reference(
                    rows[head][None], keys[None], scale=scoring.scale, softcap=scoring.softcap
                )[0]
                + log_weights
            )
            if len(keys):
                work.near_lse[asked, head, 0] = scores.logsumexp(-1)
                work.near_out[asked, head, 0] = scores.softmax(-1) @ values.float()
    if layer.upper is None:
        scored = (layer.centroids, layer.offsets, work.scores, work.parts)
    else:
        level = layer.upper
        scored = (level.centroids, level.token_offsets, work.upper_scores, work.upper_parts)
    centroids, offsets, raw, parts = scored
    raw.copy_(score_rows(query, centroids, s, scoring))
    if parts.numel():
        sizes = offsets.diff()[..., None].log()  # -inf for an empty cluster
        parts.fill_(-torch.inf)
        parts[:, 0] = (raw + sizes).logsumexp(1)


def near_keys(
    layer: ResidentLayer, question: QuestionKeys, asked: int, head: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Keys and values (keys, head_dim) that a question's token sees anyway, and log weights."""
    retrieval, length = len(layer.keys), int(question.lengths[asked])
    own = (question.keys[asked, head, :length], question.values[asked, head, :length])
    around = [own]
    log_weights = [torch.zeros(length, device=own[0].device)]
    if head < retrieval:
        anchors = slice(0, layer.num_anchors)
        around.append((layer.keys[head, anchors], layer.values[head, anchors]))
        log_weights.append(torch.zeros(layer.num_anchors, device=own[0].device))
    elif layer.streaming is not None:
        kept, at = layer.streaming, head - retrieval
        around.append((kept.keys[at], kept.values[at]))
        log_weights.append(kept.log_weights[at])
    keys, values = (torch.cat(part) for part in zip(*around, strict=True))
    return keys, values, torch.cat(log_weights)


def score_rows(query: Tensor, centroids: Tensor, sizes: Sizes, scoring: Scoring) -> Tensor:
    """Raw scores (retrieval, clusters, rows) fp32 of all questions' rows; padded rows are zero."""
    s = sizes
    rows = query.reshape(s.batch, s.kv_heads, s.group, s.head_dim)[:, : s.retrieval]
    every = s.rows // s.group_pad
    rows = pad(rows, (0, 0, 0, s.group_pad - s.group, 0, 0, 0, every - s.batch))
    rows = rows.transpose(0, 1).flatten(1, 2)  # (retrieval, rows, head_dim)
    raw = scores_reference(rows, centroids, scale=scoring.scale, softcap=scoring.softcap)
    return raw.transpose(1, 2)
