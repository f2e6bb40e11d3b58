"""What every result carries: weights, machine, versions, commit; percentiles; the file itself."""

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

NO_MODEL = "no model"  # as weights of a figure that no model took part in
PACKAGES = ("torch", "transformers", "numpy", "safetensors")


def percentiles(samples: Sequence[float]) -> dict[str, float]:
    """p20, p50 and p80 of the samples, in their unit, and their number `n`."""
    several = samples if len(samples) > 1 else [*samples, *samples]
    cuts = statistics.quantiles(several, n=10, method="inclusive")
    return {"p20": cuts[1], "p50": cuts[4], "p80": cuts[7], "n": len(samples)}


Weights = str | Mapping[str, Any]


def circumstances(device: str, weights: Weights) -> dict[str, Any]:
    """Where and with what a figure was produced.

    Args:
        weights: the fingerprint of the model that was measured (`weights_fingerprint`), or what
            was drawn in its place (`drawn`).
    """
    versions, gpu = {name: version(name) for name in PACKAGES}, None
    if device == "cuda":
        versions, gpu = versions | gpu_versions(), torch.cuda.get_device_name(0)
    return {
        "weights": weights,
        "device": device,
        "gpu": gpu,
        "processor": _processor(),
        "cores": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": versions,
        "commit": commit(),
    }


def drawn(shape: str, *seeds: int) -> dict[str, Any]:
    """Random weights, or keys and queries, that a benchmark draws: of which shape, by which seeds.

    Args:
        seeds: of the generators; several where layers or documents are drawn by one each.
    """
    return {"shape": shape, "seeds": list(seeds)}


def gpu_versions() -> dict[str, str]:
    """What compiles the kernels, and whose attention they are held against."""
    import triton

    cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    return {
        "triton": triton.__version__,
        "cuda": str(torch.version.cuda),
        "cudnn": str(cudnn),
    }


def commit() -> str:
    """The commit that ran, with `+` where the tree had changes to code.

    `BENCH_COMMIT` says it for a copy of the tree, whose history may be missing or old.
    """
    if named := os.environ.get("BENCH_COMMIT"):
        return named
    root = Path(__file__).parent.parent
    try:
        head = _git(root, "rev-parse", "--short=12", "HEAD")
        dirty = _git(root, "status", "--porcelain", "--untracked-files=no", "--", "*.py")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if dirty else "")


def write(name: str, result: Mapping[str, Any], folder: Path) -> Path:
    """Write a result as JSON; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path


def _git(root: Path, *arguments: str) -> str:
    run = subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
    )
    return run.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
