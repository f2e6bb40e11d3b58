"""Contract of `choose_tokens`."""

from collections.abc import Callable

from torch import Tensor

from common.errors import ShapeError
from engine.kernels.choose_tokens.chosen import Chosen
from engine.kernels.choose_tokens.reference import choose_tokens_reference


def choose_tokens(
    query: Tensor,
    centroids: Tensor,
    offsets: Tensor,
    threshold: Tensor,
    extra_lse: Tensor,
    near: Tensor,
    *,
    num_tokens: int,
    group: int,
    how: str,
    scale: float,
    softcap: float | None = None,
) -> Chosen:
    """List the near tokens and those of the clusters whose aggregated score reaches a threshold.

    With `attend_tokens` this is a question's prefill over a layer's retrieval heads: `near` are the
    anchors, `layer.keys[:, : layer.num_anchors]`, so that rows of `layer.keys` are listed, and
    `extra_lse` is of the question's attention to itself, which is `around` there. On a GPU nothing
    waits for the host: the counts stay there.

    Args:
        query: (kv_heads, group x tokens, head_dim), contiguous, at least one row.
        centroids: (kv_heads, clusters, head_dim), contiguous, at least one.
        offsets: (kv_heads, clusters + 1) int32, run j of clustered tokens is offsets[j] to
            offsets[j + 1]; a run may be empty.
        threshold: log score, fp32 of one element on the query's device.
        extra_lse: log mass of what else is attended (kv_heads, group x tokens), fp32.
        near: keys that are attended anyway (kv_heads, near, head_dim), their rows contiguous; they
            count in the scores' denominator, and are listed as 0, 1, ... before the clustered ones.
        num_tokens: clustered tokens of a head.
        group: query heads per KV head.
        how: a name of `score_clusters.AGGREGATIONS`.
        scale, softcap: the model's own.
    Raises: ShapeError if the shapes do not fit; InvalidInput for an unknown aggregation.
    Source: Squeezed Attention, equations 1 to 3 and section 4.1.
    """
    heads, rows, head_dim = query.shape
    if centroids.shape[0] != heads or centroids.shape[2] != head_dim or rows % group:
        raise ShapeError(
            f"Query {tuple(query.shape)} of groups of {group} and centroids "
            f"{tuple(centroids.shape)} do not fit together."
        )
    if offsets.shape != (heads, centroids.shape[1] + 1) or extra_lse.shape != query.shape[:2]:
        raise ShapeError(
            f"{tuple(offsets.shape)} offsets for {tuple(centroids.shape[:2])} clusters, or "
            f"{tuple(extra_lse.shape)} masses for {tuple(query.shape[:2])} rows."
        )
    if near.shape[0] != heads or near.shape[2] != head_dim:
        raise ShapeError(
            f"Query {tuple(query.shape)} and near keys {tuple(near.shape)} do not fit."
        )
    choose = _implementation(query)
    return choose(
        query,
        centroids,
        offsets,
        threshold,
        extra_lse,
        near,
        num_tokens=num_tokens,
        group=group,
        how=how,
        scale=scale,
        softcap=softcap,
    )


def _implementation(query: Tensor) -> Callable[..., Chosen]:
    if not query.is_cuda:
        return choose_tokens_reference
    from engine.kernels.choose_tokens.kernel import choose_tokens_triton

    return choose_tokens_triton
