"""The first kernel of a decode step: centroids are scored, and dense keys attended to."""

import torch

from engine.kernels.decode.inputs import DecodeInputs
from engine.kernels.decode.reference_helpers import dense_keys, raw_scores
from engine.kernels.decode.workspace import Workspace
from engine.kernels.shared.scores import scores_reference


def score_centroids_and_attend_dense(inputs: DecodeInputs, work: Workspace) -> None:
    """Score all centroids of the top level, and attend to the dense keys.

    Both are one launch, as neither needs the other. Dense keys are those that a token attends to
    without a lookup: a retrieval head's anchors, a streaming head's keys, and the question's own;
    in a layer with a window those that it shows, and no others are read. Their mass is the E of the
    lookup's denominator. Centroids, of level 1 if there is one, else of level 2, are read once for
    all questions.

    Args:
        inputs: what the step reads, as `decode_attention` has checked it.
        work: of it `dense_out` and `dense_lse` are written; `centroid_scores` and `centroid_lse`,
            or `upper_scores` and `upper_lse`; and zeros to `segment_counts`.
    Source: Squeezed Attention, equations 1 and 2; RazorAttention, equation 5; Flash-Decoding.
    """
    if inputs.query.is_cuda:
        from engine.kernels.decode.triton.score_centroids_and_attend_dense import (
            score_centroids_and_attend_dense_triton,
        )

        score_centroids_and_attend_dense_triton(inputs, work)
    else:
        score_centroids_and_attend_dense_reference(inputs, work)


def score_centroids_and_attend_dense_reference(inputs: DecodeInputs, work: Workspace) -> None:
    """Compute `score_centroids_and_attend_dense` in torch, in a single split of keys and clusters.

    Args: as `score_centroids_and_attend_dense`.
    """
    s, layer, scoring = work.sizes, inputs.layer, inputs.scoring
    work.dense_out.zero_()
    work.dense_lse.fill_(-torch.inf)
    work.segment_counts.zero_()
    for question in range(s.batch):
        groups = inputs.query[question].reshape(s.kv_heads, s.group, s.head_dim)
        for head in range(s.kv_heads):
            keys, values, log_weights = dense_keys(inputs, question, head)
            if len(keys) == 0:
                continue
            scores = scores_reference(
                groups[head][None], keys[None], scale=scoring.scale, softcap=scoring.softcap
            )[0]  # (group, keys)
            scores = scores + log_weights
            work.dense_lse[question, head, 0] = scores.logsumexp(-1)
            work.dense_out[question, head, 0] = scores.softmax(-1) @ values.float()
    if inputs.sink_logits is not None:
        work.dense_lse[:, :, -1] = inputs.sink_logits.float().view(s.kv_heads, s.group)
    if layer.upper is None:
        centroids, offsets = layer.centroids, layer.offsets
        all_scores, lse = work.centroid_scores, work.centroid_lse
    else:
        centroids, offsets = layer.upper.centroids, layer.upper.token_offsets
        all_scores, lse = work.upper_scores, work.upper_lse
    all_scores.copy_(raw_scores(inputs.query, centroids, s, scoring))
    if lse.numel():
        log_sizes = offsets.diff()[..., None].log()  # -inf for an empty cluster
        lse.fill_(-torch.inf)
        lse[:, 0] = (all_scores + log_sizes).logsumexp(1)
