"""The end of a lookup: the runs of tokens that questions attend to."""

import torch

from engine.kernels.decode.inputs import DecodeInputs
from engine.kernels.decode.reference_helpers import lookup_lse, reaches_threshold
from engine.kernels.decode.workspace import Workspace


def select_runs(inputs: DecodeInputs, work: Workspace) -> None:
    """List the clusters whose aggregated share reaches a question's threshold, as segments.

    A cluster is a contiguous run of tokens. It is cut into segments of at most
    `tuning.segment_size` tokens, which are listed in ascending order, the same in every run of the
    program. All questions share the list; a bit for each says which segments are its own.

    Args:
        inputs: what the step reads, as `decode_attention` has checked it; the second row of the
            thresholds is used.
        work: as `score_centroids_and_attend_dense`, or `score_children` after it, leaves it. Of it
            `segments`, `question_masks` and `num_segments` are written, the first two up to the
            number of segments; `read_counts[0]` counts up.
    Source: Squeezed Attention, equation 3 and section 4.1.
    """
    if inputs.query.is_cuda:
        from engine.kernels.decode.triton.select_runs import select_runs_triton

        select_runs_triton(inputs, work)
    else:
        select_runs_reference(inputs, work)


def select_runs_reference(inputs: DecodeInputs, work: Workspace) -> None:
    """Compute `select_runs` in torch, cluster by cluster.

    Args: as `select_runs`.
    """
    s, size = work.sizes, work.tuning.segment_size
    bit = torch.arange(s.batch, device=work.segments.device)[:, None]
    for head in range(s.retrieval):
        lse = lookup_lse(work.centroid_lse, work.dense_lse, work.sizes, head)
        scores = work.centroid_scores[head]
        is_selected = reaches_threshold(scores, lse, inputs.thresholds[1], s, inputs.scoring)
        offsets = inputs.layer.offsets[head].long()
        work.read_counts[0, head] += (is_selected * offsets.diff()).sum(1)
        masks = (is_selected.long() << bit).sum(0)  # (clusters,)
        segments, question_masks = [], []
        for cluster in masks.nonzero()[:, 0].tolist():
            begin, end = offsets[cluster : cluster + 2].tolist()
            starts = range(begin, end, size)
            segments += [start * 32 + min(size, end - start) for start in starts]
            question_masks += [int(masks[cluster])] * len(starts)
        work.num_segments[head] = len(segments)
        work.segments[head, : len(segments)] = work.segments.new_tensor(segments)
        if s.batch > 1:
            listed = work.question_masks.new_tensor(question_masks)
            work.question_masks[head, : len(listed)] = listed
