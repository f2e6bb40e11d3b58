"""Attention of a question's prefill, in one layer, about whatever document."""

from typing import NamedTuple

import torch
from torch import Tensor

from engine.kernels.batch.tables import LOWEST_THRESHOLD
from engine.kernels.decode.inputs import ResidentLayer
from engine.kernels.prefill.attend_dense import AttendDenseInputs, attend_dense_reference
from engine.kernels.prefill.attend_tokens import AttendTokensInputs, attend_tokens_reference
from engine.kernels.prefill.select_tokens import SelectTokensInputs, select_tokens_reference
from engine.kernels.question.inputs import QuestionInputs
from engine.kernels.question.tables import AskedQuestion
from engine.kernels.question.workspace import QuestionWorkspace
from engine.kernels.shared.accumulate_attention_mass import (
    AttendedTokens,
    AttentionMassInputs,
    accumulate_attention_mass_reference,
)
from engine.kernels.shared.merge_states import merge_states_reference
from engine.kernels.shared.state import State


def attend_question(inputs: QuestionInputs, work: QuestionWorkspace) -> Tensor:
    """Attend with all tokens of a question: causally to the question, and to its document.

    Retrieval heads look up centroids with the whole question, and attend exactly to the clusters
    that hold about as many tokens as are wanted, and to the anchors; streaming heads attend to
    their own keys; a layer with a window to those that it shows. In layers without a window the
    squares of the last token's attention weights are added to the question's mass, if it has one.

    On a GPU these are ten launches, three in a layer without clusters, that never wait for the
    host: the question and its document are found in tables on the device, so a CUDA graph can hold
    the launches for whatever question comes.

    Args:
        inputs: what the layer reads. No launch since the tables were written overlaps that write
            (`engine.kernels.shared.overlap`).
        work: buffers of `allocate_question`. The layer's parts of `own` and `counts` are written.
    Returns: work.out, (tokens, num_heads, head_dim), zeros for padding.
    Raises: ShapeError if tensors do not fit together, or lie in memory in another way than stated;
        InvalidInput for an unknown aggregation.
    Source: as `attend_dense`, `select_tokens` and `attend_tokens`.
    """
    inputs.validate(work.sizes)
    if inputs.query.is_cuda:
        from engine.kernels.question.triton.launch import attend_question_triton

        attend_question_triton(inputs, work)
        return work.out
    own, asked = work.own[inputs.layer], inputs.table.asked
    result = attend_question_reference(inputs, own)
    if asked is not None:
        places = slice(asked.num_earlier, asked.num_earlier + asked.num_tokens)
        own[0, :, places] = inputs.key[:, : asked.num_tokens]
        own[1, :, places] = inputs.value[:, : asked.num_tokens]
        if asked.mass is not None and result.mass is not None:
            asked.mass.add_(result.mass)
    work.counts[inputs.layer, : inputs.retrieval] = result.counts
    work.out.copy_(result.out)
    return work.out


class QuestionResult(NamedTuple):
    """What a layer of a prefill computes.

    Attributes:
        out: (tokens, num_heads, head_dim) in the query's dtype.
        counts: (retrieval,) int32: clustered tokens that each retrieval head selected.
        mass: what is to be added to the question's mass; None if it has none, or for a layer that
            leaves none.
    """

    out: Tensor
    counts: Tensor
    mass: Tensor | None


def attend_question_reference(inputs: QuestionInputs, own: Tensor) -> QuestionResult:
    """Define `attend_question` by the operations of a prefill about one document, in torch.

    Args:
        inputs: what the layer reads; nothing is checked.
        own: (2, kv_heads, own_tokens, head_dim), of which the earlier tokens' are read.
    """
    i, asked = inputs, inputs.table.asked
    out = i.query.new_zeros(i.query.shape[1], i.query.shape[0], i.query.shape[2])
    counts = torch.zeros(i.retrieval, dtype=torch.int32, device=out.device)
    if asked is None:
        return QuestionResult(out, counts, None)
    layer = i.documents.layers[asked.document][i.layer]
    rows = i.query[:, : asked.num_tokens].reshape(len(i.key), -1, i.query.shape[2])
    joint = _attend_dense(i, asked, rows, layer, own[:, :, : asked.num_earlier])
    mass = None
    if i.looks_up:
        dense = State(joint.out[: i.retrieval], joint.lse[: i.retrieval])
        found, attended = _attend_clusters(i, asked, rows[: i.retrieval], dense, layer)
        counts = attended.counts
        joint = State(
            torch.cat((found.out, joint.out[i.retrieval :])),
            torch.cat((found.lse, joint.lse[i.retrieval :])),
        )
        if asked.mass is not None:
            mass = torch.zeros_like(asked.mass)
            _add_mass(i, asked, rows[: i.retrieval], found.lse, attended, mass)
    by_head = joint.out.reshape(len(i.query), asked.num_tokens, -1)
    out[: asked.num_tokens] = by_head.transpose(0, 1)
    return QuestionResult(out, counts, mass)


def _attend_dense(
    inputs: QuestionInputs,
    asked: AskedQuestion,
    rows: Tensor,
    layer: ResidentLayer,
    earlier: Tensor,
) -> State:
    i, streaming = inputs, layer.streaming
    state = attend_dense_reference(
        AttendDenseInputs(
            query=rows,
            num_tokens=asked.num_tokens,
            question_keys=torch.cat((earlier[0], i.key[:, : asked.num_tokens]), dim=1),
            question_values=torch.cat((earlier[1], i.value[:, : asked.num_tokens]), dim=1),
            anchor_keys=layer.keys[:, : layer.num_anchors],
            anchor_values=layer.values[:, : layer.num_anchors],
            streaming_keys=None if streaming is None else streaming.keys,
            streaming_values=None if streaming is None else streaming.values,
            log_last_weight=0.0 if streaming is None else float(streaming.log_weights[0, -1]),
            window=i.window,
            scale=i.scoring.scale,
            softcap=i.scoring.softcap,
        )
    )
    if i.sink_logits is None:
        return state
    by_row = i.sink_logits.float()[:, None].expand(-1, asked.num_tokens).reshape(state.lse.shape)
    return merge_states_reference(state, State(torch.zeros_like(state.out), by_row))


def _attend_clusters(
    inputs: QuestionInputs,
    asked: AskedQuestion,
    rows: Tensor,
    dense: State,
    layer: ResidentLayer,
) -> tuple[State, AttendedTokens]:
    """Select tokens and attend to them, and to what `dense` is the state of."""
    i, anchors, device = inputs, layer.num_anchors, rows.device
    wanted = asked.wanted[i.layer]
    if layer.centroids.shape[1] == 0:
        none = torch.zeros(len(rows), 0, dtype=torch.int32, device=device)
        return dense, AttendedTokens(none, torch.zeros_like(none).sum(1, dtype=torch.int32))
    selected = select_tokens_reference(
        SelectTokensInputs(
            query=rows,
            centroids=layer.centroids,
            offsets=layer.offsets,
            threshold=torch.full((1,), LOWEST_THRESHOLD, device=device) if wanted < 0 else None,
            num_wanted=None if wanted < 0 else torch.tensor([wanted], device=device),
            dense_lse=dense.lse,
            anchor_keys=layer.keys[:, :0],
            num_tokens=layer.keys.shape[1] - anchors,
            group=i.query.shape[0] // len(i.key),
            aggregation=i.scoring.aggregation,
            scale=i.scoring.scale,
            softcap=i.scoring.softcap,
        )
    )
    state = attend_tokens_reference(
        AttendTokensInputs(
            query=rows,
            keys=layer.keys[:, anchors:],
            values=layer.values[:, anchors:],
            tokens=selected.tokens,
            counts=selected.counts,
            dense_state=dense,
            scale=i.scoring.scale,
            softcap=i.scoring.softcap,
        )
    )
    return state, AttendedTokens(selected.tokens, selected.counts)


def _add_mass(
    inputs: QuestionInputs,
    asked: AskedQuestion,
    rows: Tensor,
    lse: Tensor,
    attended: AttendedTokens,
    mass: Tensor,
) -> None:
    """Add the last token's squared weights, which count by their heads' weights."""
    i, heads, last = inputs, len(rows), asked.num_tokens - 1
    layer = i.documents.layers[asked.document][i.layer]
    log_weights = i.documents.log_weights[asked.document, i.layer, :heads, None]
    accumulate_attention_mass_reference(
        mass,
        AttentionMassInputs(
            query=rows.reshape(heads, -1, asked.num_tokens, rows.shape[2])[:, :, last],
            lse=lse.reshape(heads, -1, asked.num_tokens)[:, :, last] - 0.5 * log_weights,
            keys=layer.keys,
            positions=i.documents.positions[asked.document][i.layer],
            attended=attended,
            num_anchors=layer.num_anchors,
            scale=i.scoring.scale,
            softcap=i.scoring.softcap,
        ),
    )
