"""Exact attention over listed runs of tokens, in equal shares."""

from collections.abc import Iterator

import torch
from torch import Tensor

from engine.kernels.decode.inputs import ResidentLayer, Scoring
from engine.kernels.decode.score_centroids import score_rows
from engine.kernels.decode.workspace import Workspace
from engine.kernels.shared.sizes import ceil_div


def attend_runs(query: Tensor, layer: ResidentLayer, work: Workspace, scoring: Scoring) -> None:
    """Attend to the listed pieces of clusters.

    The pieces of all heads, laid end to end, are cut into equal shares: heads that keep very
    different numbers of tokens do not wait for each other. The rows of a tile are all heads of the
    GQA group, of all questions.

    Args:
        query: (batch, num_heads, head_dim).
        work: as `select_runs` leaves it.
    Fills: of `work` part_out and part_lse, where a share holds pieces of a head, and token_scores
        of these tokens, if there is room for them.
    Source: Squeezed Attention, section 4.2; Flash-Decoding.
    """
    if query.is_cuda:
        from engine.kernels.decode.triton.attend_runs import attend_runs_triton

        attend_runs_triton(query, layer, work, scoring)
    else:
        attend_runs_reference(query, layer, work, scoring)


def attend_runs_reference(
    query: Tensor, layer: ResidentLayer, work: Workspace, scoring: Scoring
) -> None:
    """See `attend_runs`."""
    s = work.sizes
    clustered = layer.keys[:, s.num_anchors :], layer.values[:, s.num_anchors :]
    scores = score_rows(query, clustered[0], s, scoring)  # (retrieval, tokens, rows)
    question = torch.arange(s.rows, device=query.device) // s.group_pad
    for program, head, pieces in shares(work):
        runs = work.runs[head, pieces]
        tokens = torch.cat([torch.arange(r >> 5, (r >> 5) + (r & 31)) for r in runs.tolist()])
        tokens = tokens.to(query.device)
        seen = scores[head, tokens]  # (tokens, rows)
        if work.token_scores.shape[2] > 0:
            work.token_scores[head][:, tokens] = seen[:, : s.group].T
        if s.batch > 1:
            bits = work.askers[head, pieces].repeat_interleave(runs & 31)
            seen = seen.masked_fill((bits[:, None] >> question) & 1 == 0, -torch.inf)
        place = program + head
        work.part_lse[place] = seen.logsumexp(0)
        weights = seen.softmax(0).nan_to_num(0.0)  # rows that see none of them
        work.part_out[place] = weights.T @ clustered[1][head, tokens].float()


def shares(work: Workspace) -> Iterator[tuple[int, int, slice]]:
    """Which program takes which pieces of which head."""
    totals, t = work.totals.tolist(), work.tuning
    step = t.block // t.piece
    share = ceil_div(ceil_div(sum(totals), t.programs), step) * step
    begin = 0
    for head, total in enumerate(totals):
        for program in range(t.programs):
            first = max(program * share - begin, 0)
            last = min((program + 1) * share - begin, total)
            if first < last:
                yield program, head, slice(first, last)
        begin += total
