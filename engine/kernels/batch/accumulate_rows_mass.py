"""Attention mass of a step's rows: what evidence is made of."""

import torch
from torch import Tensor

from engine.kernels.batch.attend_rows import attend_rows_reference
from engine.kernels.batch.inputs import BatchInputs
from engine.kernels.batch.workspace import BatchWorkspace
from engine.kernels.shared.attend_keys import attention_weights_reference


def accumulate_rows_mass(inputs: BatchInputs, work: BatchWorkspace) -> None:
    """Add the squares of each row's attention weights, summed over query heads, to its mass.

    A square counts by its head's weight in the document table.

    Counted are the anchors of retrieval heads and the clustered tokens that the row attended to.
    On a GPU nothing waits for the host; the order of the additions, and so their rounding, may
    differ from run to run.

    Args:
        inputs: of a layer without a window that has retrieval heads; each row's mass, by place in
            its document, is added to.
        work: as `attend_rows` leaves it for these inputs.
    """
    if inputs.query.is_cuda:
        from engine.kernels.batch.triton.accumulate_rows_mass import accumulate_rows_mass_triton

        accumulate_rows_mass_triton(inputs, work)
    else:
        accumulate_rows_mass_reference(inputs)


def accumulate_rows_mass_reference(inputs: BatchInputs) -> None:
    """Define `accumulate_rows_mass` in torch, row by row and head by head.

    Args:
        inputs: of the layer; nothing is checked.
    """
    found, documents = attend_rows_reference(inputs), inputs.documents
    group = inputs.query.shape[1] // inputs.keys.shape[1]
    for place, row in enumerate(inputs.tables.plan):
        layer = documents.layers[row.document][inputs.layer]
        positions = documents.positions[row.document][inputs.layer]
        head_weights = documents.log_weights[row.document, inputs.layer].exp()
        for head in range(inputs.retrieval):
            sizes = layer.offsets[head].diff()
            clustered = found.selected[place][head].repeat_interleave(sizes).nonzero()[:, 0]
            anchors = torch.arange(layer.num_anchors, device=clustered.device)
            tokens = torch.cat((anchors, layer.num_anchors + clustered))
            heads = slice(head * group, (head + 1) * group)
            weights: Tensor = attention_weights_reference(
                inputs.query[place, heads][None],
                layer.keys[head, tokens][None],
                found.lse[place, heads][None],
                scale=inputs.scoring.scale,
                softcap=inputs.scoring.softcap,
                bias=None,
            )
            squares = weights[0].square().sum(0) * head_weights[head]
            row.mass.index_add_(0, positions[head, tokens].long(), squares)
