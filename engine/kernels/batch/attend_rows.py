"""Attention of a step of many rows over the documents that they are about."""

from typing import NamedTuple

import torch
from torch import Tensor

from engine.kernels.batch.inputs import BatchInputs
from engine.kernels.batch.sizes import PAGE
from engine.kernels.batch.tables import LOWEST_THRESHOLD, StepRow
from engine.kernels.batch.workspace import BatchWorkspace
from engine.kernels.decode.decode_attention import DecodeResult, decode_attention_reference
from engine.kernels.decode.inputs import DecodeInputs, QuestionKeys
from engine.kernels.shared.sizes import ceil_div


def attend_rows(inputs: BatchInputs, work: BatchWorkspace) -> Tensor:
    """Attend with one token of each question: to its question, itself included, and its document.

    Retrieval heads look up centroids and attend exactly to the clusters that they select, and to
    the anchors; a row that reads all of its document attends to all keys without a lookup;
    streaming heads attend to their own keys; a layer with a window to those that it shows. What a
    row selects does not depend on the other rows. Rows of a group read a cluster once: the union of
    what they select is read, and each row weighs its own selection only; where the union comes near
    the whole, all of a head is read in one pass.

    On a GPU these are four launches, one in a layer without clusters, that never wait for the host:
    rows, groups and documents are found in tables on the device, so a CUDA graph can hold the
    launches for whatever rows come. Results do not depend on timing.

    Args:
        inputs: what the step reads. The launch right before does not write centroids, offsets or
            tables (`engine.kernels.shared.overlap`).
        work: buffers of `allocate_batch`. `out`, `lse` and the lists are written; `read_bytes` is
            added to; `listed_scores` and `anchor_scores` of what each row attended to in retrieval
            heads, but for layers with a window.
    Returns: work.out, (rows, num_heads, head_dim), zeros for rows that the step does not have.
    Raises: ShapeError if tensors do not fit together, or lie in memory in another way than stated.
    Source: Squeezed Attention, sections 4 and 6.3; Flash-Decoding.
    """
    inputs.validate(work.sizes)
    if inputs.query.is_cuda:
        from engine.kernels.batch.triton.launch import attend_rows_triton

        attend_rows_triton(inputs, work)
    else:
        result = attend_rows_reference(inputs)
        work.out.copy_(result.out)
        work.lse.copy_(result.lse)
        work.read_bytes.add_(result.read_bytes)
    return work.out


class RowsResult(NamedTuple):
    """What a layer of a step computes.

    Attributes:
        out: (rows, num_heads, head_dim) in the query's dtype.
        lse: log-sum-exp in nats (rows, num_heads), fp32; -inf for rows that the step does not have.
        read_bytes: (rows,) int64, bytes of selected clusters; 0 for rows that read everything.
        selected: (clusters, ) bool of each retrieval head (retrieval, clusters) by row.
    """

    out: Tensor
    lse: Tensor
    read_bytes: Tensor
    selected: tuple[Tensor, ...]


def attend_rows_reference(inputs: BatchInputs) -> RowsResult:
    """Define `attend_rows` in torch, row by row.

    Args:
        inputs: what the step reads; nothing is checked.
    """
    query = inputs.query
    out = torch.zeros_like(query)
    lse = torch.full(query.shape[:2], -torch.inf, device=query.device)
    read_bytes = torch.zeros(len(query), dtype=torch.int64, device=query.device)
    selected = []
    vector_bytes = query.shape[2] * query.element_size()
    for place, row in enumerate(inputs.tables.plan):
        found = _attend_row(inputs, place, row)
        out[place], lse[place] = found.out[0], found.lse[0]
        if not row.reads_all:
            read_bytes[place] = found.read_counts[0].sum() * 2 * vector_bytes
        selected.append(found.selected[0])
    return RowsResult(out, lse, read_bytes, tuple(selected))


def _attend_row(inputs: BatchInputs, place: int, row: StepRow) -> DecodeResult:
    layer = inputs.documents.layers[row.document][inputs.layer]
    threshold = LOWEST_THRESHOLD if row.reads_all else max(row.threshold, LOWEST_THRESHOLD)
    keys, values = (own_keys(pool, row)[None] for pool in (inputs.keys, inputs.values))
    device = inputs.query.device
    lengths = torch.tensor([row.num_keys], dtype=torch.int32, device=device)
    return decode_attention_reference(
        DecodeInputs(
            inputs.query[place : place + 1],
            layer,
            QuestionKeys(keys, values, lengths),
            torch.full((2, 1), threshold, device=device),
            inputs.scoring,
            inputs.sink_logits,
        )
    )


def own_keys(pool: Tensor, row: StepRow) -> Tensor:
    """Collect the keys, or the values, of a row's question from their pages.

    Args:
        pool: (pages, kv_heads, PAGE, head_dim).
    Returns: (kv_heads, num_keys, head_dim).
    """
    used = list(row.pages[: ceil_div(row.num_keys, PAGE)])
    return pool[used].transpose(0, 1).flatten(1, 2)[:, : row.num_keys]
