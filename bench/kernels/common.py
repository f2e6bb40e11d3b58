"""What the kernels' benchmarks share: layers with cluster structure, timing, and the floor.

Layers are drawn, not read from a model, with the traits that make a document's cache hard: clusters
of log-normal sizes around level-2 centroids, themselves grouped around level-1 centroids, and heads
whose attention is flat or sharp, so that one threshold loads very different shares of them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from bench.record import percentiles

LIKENESS = 0.7  # share of a level-2 centroid's variance that its level-1 cluster explains
SIZE_SPREAD = 0.8  # standard deviation of the logarithm of cluster sizes
KEY_NOISE = 0.3  # standard deviation of a key around its centroid, whose own is about 1
SHARPNESS = (0.5, 4.0)  # standard deviation of scores in the flattest and the sharpest head
GROUP_LIKENESS = 0.7  # share of a query's variance that its GQA group has in common


class WrongResult(SystemExit):
    """A kernel's result is not what it is defined to be: no figure is given."""


@dataclass(frozen=True)
class Shape:
    """A layer's shape: Llama-3-8B's by default."""

    num_keys: int
    num_heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    num_anchors: int = 144
    centroid_share: float = 0.05
    upper_share: float = 0.005

    @property
    def num_clusters(self) -> int:
        """Level-2 clusters a head."""
        return int(self.num_keys * self.centroid_share)

    @property
    def num_upper(self) -> int:
        """Level-1 clusters a head."""
        return int(self.num_keys * self.upper_share)

    @property
    def scale(self) -> float:
        """Factor on scores."""
        return 1.0 / math.sqrt(self.head_dim)


@dataclass(frozen=True)
class Layer:
    """A drawn layer's document cache, as the engine holds one.

    Attributes:
        keys, values: (kv_heads, num_anchors + num_keys, head_dim) bf16, anchors first.
        num_anchors: sinks and exact tail.
        centroids, offsets: level 2, (kv_heads, clusters, head_dim) and (kv_heads, clusters + 1)
            int32 in clustered tokens.
        upper_centroids, upper_offsets: level 1, offsets in level-2 clusters.
    """

    keys: Tensor
    values: Tensor
    num_anchors: int
    centroids: Tensor
    offsets: Tensor
    upper_centroids: Tensor
    upper_offsets: Tensor


def draw_layer(shape: Shape, seed: int, device: str = "cuda") -> Layer:
    """Draw one layer's document cache in bf16, with `shape.num_keys` clustered keys a head."""
    generator = torch.Generator(device).manual_seed(seed)
    s, tokens = shape, shape.num_keys + shape.num_anchors
    size = (s.kv_heads, tokens, s.head_dim)
    keys = torch.empty(size, dtype=torch.bfloat16, device=device)
    values = torch.empty_like(keys).normal_(generator=generator)
    centroids2, offsets2, centroids1, offsets1 = [], [], [], []
    for head in range(s.kv_heads):
        upper = torch.randn(s.num_upper, s.head_dim, generator=generator, device=device)
        children = _sizes(s.num_clusters, s.num_upper, generator)
        lower = torch.randn(s.num_clusters, s.head_dim, generator=generator, device=device)
        lower = lower * (1 - LIKENESS) ** 0.5
        lower += LIKENESS**0.5 * upper.repeat_interleave(children, 0)
        sizes = _sizes(s.num_keys, s.num_clusters, generator)
        noise = torch.randn(tokens, s.head_dim, generator=generator, device=device) * KEY_NOISE
        noise[s.num_anchors :] += lower.repeat_interleave(sizes, 0)
        keys[head] = noise
        centroids2.append(_means(keys[head, s.num_anchors :].float(), sizes).bfloat16())
        offsets2.append(_offsets(sizes))
        centroids1.append(_means(lower, children, sizes).bfloat16())
        offsets1.append(_offsets(children))
    return Layer(
        keys=keys,
        values=values,
        num_anchors=s.num_anchors,
        centroids=torch.stack(centroids2),
        offsets=torch.stack(offsets2),
        upper_centroids=torch.stack(centroids1),
        upper_offsets=torch.stack(offsets1),
    )


def draw_queries(shape: Shape, num_tokens: int, seed: int, device: str = "cuda") -> Tensor:
    """Draw queries (num_tokens, num_heads, head_dim) in bf16; KV heads differ in sharpness."""
    generator = torch.Generator(device).manual_seed(seed)
    s, group = shape, shape.num_heads // shape.kv_heads
    size = (num_tokens, s.kv_heads, 1, s.head_dim)
    shared = torch.randn(size, generator=generator, device=device) * GROUP_LIKENESS**0.5
    own = torch.randn(num_tokens, s.kv_heads, group, s.head_dim, generator=generator, device=device)
    low, high = SHARPNESS
    steps = torch.linspace(0.0, 1.0, s.kv_heads, device=device)
    sharpness = low * (high / low) ** steps[None, :, None, None]
    # A score is scale x sum of head_dim products: with keys of variance 1 its deviation is |q|'s.
    query = (shared + own * (1 - GROUP_LIKENESS) ** 0.5) * sharpness
    rows: Tensor = query.reshape(num_tokens, s.num_heads, s.head_dim).bfloat16()
    return rows


def _sizes(total: int, count: int, generator: torch.Generator) -> Tensor:
    """Log-normal sizes of `count` clusters that add up to `total`, all at least 1."""
    noise = torch.randn(count, generator=generator, device=generator.device, dtype=torch.float64)
    weights = (noise * SIZE_SPREAD).exp()
    ends = (weights.cumsum(0) / weights.sum() * (total - count)).round().long()
    return ends.diff(prepend=ends.new_zeros(1)) + 1


def _offsets(sizes: Tensor) -> Tensor:
    return torch.cat((sizes.new_zeros(1), sizes.cumsum(0))).int()


def _means(rows: Tensor, sizes: Tensor, weights: Tensor | None = None) -> Tensor:
    """Means of consecutive runs of rows, weighted if weights are given."""
    owner = torch.arange(len(sizes), device=rows.device).repeat_interleave(sizes)
    each = torch.ones(len(rows), device=rows.device) if weights is None else weights.float()
    total = torch.zeros(len(sizes), rows.shape[1], device=rows.device)
    total.index_add_(0, owner, rows * each[:, None])
    mass = torch.zeros(len(sizes), device=rows.device).index_add_(0, owner, each)
    return total / mass[:, None]


# -- time ----------------------------------------------------------------------------------------


def time_graph(
    steps: Sequence[Callable[[], object]], *, least_steps: int = 16, replays: int = 40
) -> dict[str, float]:
    """Percentiles of microseconds a step, replaying a CUDA graph that runs the steps in turn.

    Args:
        steps: one call each, over inputs that together are several times the L2 cache.
        least_steps: calls in a graph, so that the launch of the graph itself weighs little.
        replays: timed replays, each a sample.
    """
    turns = -(-least_steps // len(steps))
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())  # the steps' inputs may still be in the making
    with torch.cuda.stream(stream):
        for step in steps:
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(turns):
            for step in steps:
                step()
    for _ in range(3):
        graph.replay()
    marks = [
        torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        for _ in range(2 * replays)
    ]
    for begin, end in zip(marks[::2], marks[1::2], strict=True):
        begin.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    count = turns * len(steps)
    pairs = zip(marks[::2], marks[1::2], strict=True)
    return percentiles([begin.elapsed_time(end) * 1e3 / count for begin, end in pairs])


def copy_bandwidth(num_bytes: int = 1 << 32) -> float:
    """Bytes a second, read plus written, of the best large copy on the device.

    That is an elementwise kernel in a graph or a copy outside of one: as a node of a graph, the
    driver's own copy reached 2.8 of 4.3 TB/s on an H200, which would make floors too high.
    """
    source = torch.rand(num_bytes // 4, device="cuda")
    target = torch.empty_like(source)
    kernel = time_graph([lambda: torch.neg(source, out=target)], least_steps=4, replays=10)
    copy = time_eager(lambda: target.copy_(source), calls=10)
    return 2 * num_bytes * 1e6 / min(kernel["p50"], copy["p50"])


def time_eager(call: Callable[[], object], calls: int) -> dict[str, float]:
    """Percentiles of microseconds of single calls outside a graph: for calls that are long."""
    call()
    samples = []
    for _ in range(calls):
        begin, end = (
            torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            for _ in range(2)
        )
        begin.record()
        call()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) * 1e3)
    return percentiles(samples)


def matmul_rate(size: int = 8192) -> float:
    """Floating-point operations a second of a large bf16 product of matrices."""
    left, right = torch.randn(2, size, size, device="cuda", dtype=torch.bfloat16)
    sample = time_graph([lambda: left @ right], least_steps=4, replays=10)
    return 2 * size**3 * 1e6 / sample["p50"]


# -- baselines -----------------------------------------------------------------------------------

LIBRARIES = {
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
}


def library_attention(
    query: Tensor, keys: Tensor, values: Tensor, library: str, *, folded: bool, scale: float
) -> Callable[[], Tensor]:
    """A call of the library's full attention, every question over the same keys.

    Args:
        query: (questions, num_heads, head_dim).
        keys, values: (kv_heads, num_keys, head_dim).
        library: a name of `LIBRARIES`.
        folded: whether the GQA group and the questions become rows of one KV head, so that keys
            are read once; else heads and batch are the library's own.
    """
    questions, _, head_dim = query.shape
    kv_heads = len(keys)
    if folded:
        rows = query.reshape(questions, kv_heads, -1, head_dim).transpose(0, 1)
        q = rows.reshape(1, kv_heads, -1, head_dim)
        k, v = keys[None], values[None]
    else:
        q = query[:, :, None]  # (questions, heads, 1, head_dim)
        k = keys[None].expand(questions, -1, -1, -1)
        v = values[None].expand(questions, -1, -1, -1)

    def call() -> Tensor:
        with sdpa_kernel(LIBRARIES[library]):
            return scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=not folded)

    return call


def time_libraries(
    query: Tensor, layers: Sequence[tuple[Tensor, Tensor]], scale: float
) -> dict[str, dict[str, float]]:
    """Every library that runs, folded and not, over (keys, values) of several layers."""
    found = {}
    for library in LIBRARIES:
        for folded in (False, True):
            calls = [
                library_attention(query, k, v, library, folded=folded, scale=scale)
                for k, v in layers
            ]
            name = f"{library}_folded" if folded else library
            try:
                found[name] = time_graph(calls, least_steps=4, replays=12)
            except RuntimeError as error:
                print(f"{name} does not run: {str(error).splitlines()[0][:100]}")
    return found
