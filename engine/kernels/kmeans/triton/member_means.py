"""`member_means` in Triton: points are sorted by cluster, so no sum needs an atomic addition."""

import torch
import triton
import triton.language as tl
from torch import Tensor

MEMBERS = 32  # rows that a program adds at a time


@triton.jit
def member_means_kernel(
    points,
    weights,
    order,
    offsets,
    means,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    MEMBERS: tl.constexpr,
):
    """Compute the weighted mean of one cluster.

    Clusters and points of all heads are numbered through. order: the points, sorted by cluster;
    offsets: where each cluster begins in that order. WIDTH: D, rounded up to a power of two.
    """
    cluster = tl.program_id(0).to(tl.int64)
    start, end = tl.load(offsets + cluster), tl.load(offsets + cluster + 1)
    member, dims = tl.arange(0, MEMBERS), tl.arange(0, WIDTH)
    total, mass = tl.zeros([WIDTH], tl.float32), tl.zeros([1], tl.float32)
    for base in range(start, end, MEMBERS):
        index = base + member  # [MEMBERS]
        exists = index < end
        row = tl.load(order + index, mask=exists, other=0)
        weight = tl.load(weights + row, mask=exists, other=0.0)
        x = tl.load(points + row[:, None] * D + dims, mask=exists[:, None] & (dims < D), other=0.0)
        total += tl.sum(x.to(tl.float32) * weight[:, None], 0)
        mass += tl.sum(weight, 0)
    mean = total / tl.maximum(mass, 1e-20)
    tl.store(means + cluster * D + dims, mean, mask=dims < D)


def member_means_triton(
    points: Tensor, weights: Tensor, labels: Tensor, num_clusters: int, members: int = MEMBERS
) -> Tensor:
    """Launch `member_means` in Triton: one sort, a binary search, and one kernel.

    Args:
        points, weights, labels, num_clusters: as of `member_means`; nothing is checked.
        members: points that a program adds at a time.
    Returns: as `member_means`.
    """
    heads, _, head_dim = points.shape
    first_cluster = torch.arange(heads, device=points.device)[:, None] * num_clusters
    # One sort for all heads.
    ordered, order = (labels + first_cluster).flatten().int().sort(stable=True)
    bounds = torch.arange(heads * num_clusters + 1, dtype=torch.int32, device=points.device)
    offsets = torch.searchsorted(ordered, bounds, out_int32=True)
    means = torch.empty(heads, num_clusters, head_dim, dtype=torch.float32, device=points.device)
    member_means_kernel[heads * num_clusters,](
        points,
        weights,
        order,  # int64: rows of all heads may hold more than 2^31 elements
        offsets,
        means,
        D=head_dim,
        WIDTH=triton.next_power_of_2(head_dim),
        MEMBERS=members,
        num_warps=2,
    )
    return means
