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
    num_points,
    num_clusters,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    MEMBERS: tl.constexpr,
):
    """The weighted mean of one cluster."""
    cluster, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    edge = offsets + head * (num_clusters + 1) + cluster
    start, end = tl.load(edge), tl.load(edge + 1)
    member, dims = tl.arange(0, MEMBERS), tl.arange(0, WIDTH)
    total, mass = tl.zeros([WIDTH], tl.float32), tl.zeros([1], tl.float32)
    for base in range(start, end, MEMBERS):
        at = base + member
        there = at < end
        row = head * num_points + tl.load(order + head * num_points + at, mask=there, other=0)
        weight = tl.load(weights + row, mask=there, other=0.0)
        x = tl.load(points + row[:, None] * D + dims, mask=there[:, None] & (dims < D), other=0.0)
        total += tl.sum(x.to(tl.float32) * weight[:, None], 0)
        mass += tl.sum(weight, 0)
    mean = total / tl.maximum(mass, 1e-20)
    tl.store(means + (head * num_clusters + cluster) * D + dims, mean, mask=dims < D)


def member_means_triton(
    points: Tensor, weights: Tensor, labels: Tensor, num_clusters: int
) -> Tensor:
    """See `member_means`."""
    heads, num_points, head_dim = points.shape
    ordered, order = labels.to(torch.int32).sort(dim=1, stable=True)
    bounds = torch.arange(num_clusters + 1, dtype=torch.int32, device=points.device)
    offsets = torch.searchsorted(ordered, bounds.repeat(heads, 1), out_int32=True)
    means = torch.empty(heads, num_clusters, head_dim, dtype=torch.float32, device=points.device)
    member_means_kernel[num_clusters, heads](
        points,
        weights,
        order,
        offsets,
        means,
        num_points,
        num_clusters,
        D=head_dim,
        WIDTH=triton.next_power_of_2(head_dim),
        MEMBERS=MEMBERS,
        num_warps=2,
    )
    return means
