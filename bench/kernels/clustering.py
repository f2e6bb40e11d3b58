"""K-means back ends compared: seconds and inertia at the same iterations.

    python -m bench.kernels.clustering --device cpu
    python -m bench.kernels.clustering --device cuda --out DIR

All start from the same centroids and cluster the same keys, drawn with cluster structure and then
shuffled. On a GPU also: a whole document of a Llama-3-8B-shaped model, both levels, brought into
cluster order. Inertia is the sum of squared distances from the means of the labels found.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench import RESULTS
from bench.kernels.layer import Shape, draw_layer
from bench.timing import matmul_rate, seconds_of
from common import plugins
from engine.kernels.kmeans.member_means import member_means_reference
from engine.kernels.kmeans.nearest_centroids import nearest_centroids, nearest_centroids_reference
from precompute import clustering
from precompute.clustering.base import KMeans, KMeansConfig, first_members, weighted_means
from precompute.config import PrecomputeConfig
from precompute.layout import lay_out_clusters
from precompute.prefill import PrefilledLayer
from training.record import circumstances, drawn, percentiles, write

ITERATIONS, LAYERS, SYNTHETIC_LAYERS = 10, 32, 4
SIZES = {"cpu": Shape(num_keys=12_288, kv_heads=2), "cuda": Shape(num_keys=131_072)}
ON_CPU_ALONE = ("faiss", "sklearn")  # as the GPU's keys are too many for them, unless asked
SAME_LABELS = 0.995  # bf16 products may tell near equals apart in another way


def main() -> None:
    """Check, measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", choices=sorted(SIZES), required=True)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--all", action="store_true", help="host back ends on the GPU's keys too")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    arguments = parser.parse_args()
    shape = SIZES[arguments.device]
    points = draw_keys(shape, 0, arguments.device)
    seeds = SYNTHETIC_LAYERS if arguments.device == "cuda" else 1
    told = f"{shape.kv_heads} KV heads of {shape.head_dim}, {shape.num_keys} keys"
    result = {
        "benchmark": "clustering",
        **circumstances(arguments.device, drawn(told, *range(seeds))),
        "heads": shape.kv_heads,
        "keys": shape.num_keys,
        "centroids": shape.num_clusters,
        "iterations": ITERATIONS,
        "correctness": check(points, shape.num_clusters),
        "back_ends": compare(points, shape.num_clusters, arguments.repeats, every=arguments.all),
    }
    if arguments.device == "cuda":
        del points
        result["document"] = measure_document(arguments.repeats)
    path = write(f"clustering_{arguments.device}", result, arguments.out)
    print(path.read_text())


def draw_keys(shape: Shape, seed: int, device: str) -> Tensor:
    """Keys (kv_heads, num_keys, head_dim), no neighbours alike: bf16 on a GPU, else fp32."""
    layer = draw_layer(replace(shape, num_anchors=0), seed, device)
    generator = torch.Generator(device).manual_seed(seed)
    order = torch.randperm(shape.num_keys, generator=generator, device=device)
    keys = layer.keys[:, order]
    return keys if device == "cuda" else keys.float()


def check(points: Tensor, num_clusters: int) -> dict[str, float]:
    """The device's kernels against their references, on one assignment.

    Raises: SystemExit if they differ by more than rounding.
    """
    first = first_members(points.shape[1], num_clusters, points.device)
    centroids, ones = points[:, first].contiguous(), torch.ones_like(points[..., 0]).float()
    labels = nearest_centroids(points, centroids)
    same = (labels == nearest_centroids_reference(points, centroids)).double().mean()
    means = weighted_means(points, ones, labels, num_clusters)
    wanted = member_means_reference(points, ones, labels, num_clusters)
    found = {"same_labels": float(same), "mean_error": float((means - wanted).abs().max())}
    if found["same_labels"] < SAME_LABELS or found["mean_error"] > 1e-3:
        raise SystemExit(f"A kernel is wrong: {found}")
    return found


def compare(
    points: Tensor, num_clusters: int, repeats: int, *, every: bool
) -> dict[str, dict[str, Any]]:
    """Seconds and inertia of each back end that can run here."""
    ones = torch.ones_like(points[..., 0]).float()
    backs: dict[str, KMeans] = {}
    for name in plugins.names(clustering):
        if points.is_cuda and name in ON_CPU_ALONE and not every:
            continue
        try:
            backs[name] = plugins.build(clustering, name, KMeansConfig(ITERATIONS))
            backs[name].labels(points[:, :4096], ones[:, :4096].contiguous(), 64)  # to warm up
        except (ImportError, RuntimeError) as error:
            backs.pop(name, None)
            print(f"{name} does not run here: {str(error).splitlines()[0]}")

    def work(kmeans: KMeans) -> Callable[[], Tensor]:
        return lambda: kmeans.labels(points, ones, num_clusters)

    found: dict[str, dict[str, Any]] = {
        name: {"inertia": inertia(points, work(kmeans)(), num_clusters)}
        for name, kmeans in backs.items()
    }
    samples: dict[str, list[float]] = {name: [] for name in backs}
    for _ in range(repeats):  # in turn, so that what else the machine does hits all
        for name, kmeans in backs.items():
            samples[name].append(seconds_of(work(kmeans)))
    for name, one in found.items():
        one["seconds"] = percentiles(samples[name])
        for other in {"faiss", "torch"} & set(found):
            one[f"inertia_to_{other}"] = one["inertia"] / found[other]["inertia"]
    return found


def inertia(points: Tensor, labels: Tensor, num_clusters: int) -> float:
    """Sum of squared distances of points from their clusters' means."""
    total = 0.0
    for head in range(len(points)):
        rows, mine = points[head : head + 1], labels[head : head + 1]
        ones = torch.ones(mine.shape, device=points.device)
        means = member_means_reference(rows, ones, mine, num_clusters)
        total += float((rows[0].float() - means[0, mine[0]]).double().square().sum())
    return total


@torch.inference_mode()
def measure_document(repeats: int) -> dict[str, Any]:
    """All layers of a 128K document: two levels, and keys and values brought into their order.

    Raises: SystemExit if a key is lost.
    """
    settings = PrecomputeConfig(kmeans_iterations=ITERATIONS)
    kmeans: KMeans = plugins.build(clustering, "triton", KMeansConfig(ITERATIONS))
    shape = replace(SIZES["cuda"], num_anchors=0)
    layers = [PrefilledLayer(keys, keys) for keys in _synthetic_keys(shape)]
    (laid_out,) = lay_out_clusters([layers[0]], kmeans, settings)
    where = laid_out.positions.long()[..., None].expand_as(laid_out.keys)
    if not torch.equal(laid_out.keys, layers[0].keys.gather(1, where)):
        raise SystemExit("Laying out lost a key.")

    def document() -> None:
        for index in range(LAYERS):
            lay_out_clusters([layers[index % SYNTHETIC_LAYERS]], kmeans, settings)

    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    document()
    peak = torch.cuda.max_memory_allocated() - held
    clusters = laid_out.level2.centroids.shape[1]
    upper = laid_out.level1.centroids.shape[1]
    products = (shape.num_keys + upper) * clusters * (ITERATIONS + 1)
    flops = 2.0 * products * shape.head_dim * shape.kv_heads * LAYERS
    rate = matmul_rate()
    return {
        "layers": LAYERS,
        "drawn_layers": SYNTHETIC_LAYERS,
        "centroids": [clusters, upper],
        "seconds": percentiles([seconds_of(document) for _ in range(repeats)]),
        "floor_seconds": flops / rate,
        "matmul_tflops": rate / 1e12,
        "peak_gib_beyond_a_layer": peak / 2**30,
    }


def _synthetic_keys(shape: Shape) -> list[Tensor]:
    return [draw_keys(shape, seed, "cuda") for seed in range(SYNTHETIC_LAYERS)]


if __name__ == "__main__":
    main()
