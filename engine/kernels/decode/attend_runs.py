"""Exact attention over the selected runs of tokens, in equal shares."""

import torch

from engine.kernels.decode.inputs import DecodeInputs
from engine.kernels.decode.reference_helpers import raw_scores, split_segments
from engine.kernels.decode.workspace import Workspace


def attend_runs(inputs: DecodeInputs, work: Workspace) -> None:
    """Attend to the listed segments of clusters.

    The segments of all heads, laid end to end, are cut into equal shares, one for each program
    (split-KV): heads that select very different numbers of tokens do not wait for each other. The
    rows of a tile are all query heads of the GQA group, of all questions.

    Args:
        inputs: what the step reads, as `decode_attention` has checked it.
        work: as `select_runs` leaves it. Of it `split_out` and `split_lse` are written where a
            share has segments of a head, and `token_scores` of the listed tokens if it has room for
            them.
    Source: Squeezed Attention, section 4.2; Flash-Decoding.
    """
    if inputs.query.is_cuda:
        from engine.kernels.decode.triton.attend_runs import attend_runs_triton

        attend_runs_triton(inputs, work)
    else:
        attend_runs_reference(inputs, work)


def attend_runs_reference(inputs: DecodeInputs, work: Workspace) -> None:
    """Compute `attend_runs` in torch, share by share.

    Args: as `attend_runs`.
    """
    s = work.sizes
    keys, values = (part[:, s.num_anchors :] for part in (inputs.layer.keys, inputs.layer.values))
    scores = raw_scores(inputs.query, keys, s, inputs.scoring)  # (retrieval, tokens, rows)
    question = torch.arange(s.rows, device=keys.device) // s.group_pad  # of each row
    for program, head, share in split_segments(work.num_segments, work.tuning):
        segments = work.segments[head, share]
        tokens = torch.cat([torch.arange(x >> 5, (x >> 5) + (x & 31)) for x in segments.tolist()])
        tokens = tokens.to(keys.device)
        listed = scores[head, tokens]  # (tokens, rows)
        if work.token_scores.shape[2] > 0:
            work.token_scores[head][:, tokens] = listed[:, : s.group].T
        if s.batch > 1:
            masks = work.question_masks[head, share].repeat_interleave(segments & 31)
            listed = listed.masked_fill((masks[:, None] >> question) & 1 == 0, -torch.inf)
        slot = program + head
        work.split_lse[slot] = listed.logsumexp(0)
        weights = listed.softmax(0).nan_to_num(0.0)  # nan in rows that see none of the tokens
        work.split_out[slot] = weights.T @ values[head, tokens].float()
