"""`attend_runs` in plain torch."""

from collections.abc import Iterator

import torch
from torch import Tensor

from engine.kernels.decoding import ResidentLayer, Scoring, Workspace
from engine.kernels.decoding.sizes import ceil_div
from engine.kernels.survey.reference import score_rows


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
