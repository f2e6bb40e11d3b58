"""How much memory documents may have in each tier: by default what the machine has left."""

from dataclasses import dataclass
from typing import Any

import torch

from common.machine import available_bytes
from engine.model.loader import LoadedModel

GPU_SHARE = 0.9  # of all its memory, for weights, documents and all else
CPU_SHARE = 0.5  # of what programs can have beside the loaded model
HOST_SHARE = 0.5  # the same behind a GPU
ORDINARY_TOKENS = 512  # of a question and its answer
GPU_SLACK_BYTES = 1 << 30  # of libraries, captured graphs, and one layer in two orders
MIB = 1 << 20


@dataclass(frozen=True)
class MemoryConfig:
    """How much memory documents may have.

    Attributes:
        device_share: of the GPU's memory, weights and all else included; on a CPU, of what programs
            can have beside the model. None: 0.9 of a GPU, 0.5 on a CPU.
        device_bytes: of documents on the device, instead of the share; None: by the share.
        host_bytes: of documents in the host's memory behind a GPU; None: half of what programs can
            have there, and none on a CPU, where documents are in the host's memory anyway.
        staging_bytes: of pinned memory on the way to a GPU.
    """

    device_share: float | None = None
    device_bytes: int | None = None
    host_bytes: int | None = None
    staging_bytes: int = 256 * MIB


@dataclass(frozen=True)
class Work:
    """What else needs memory on the device while documents are there.

    Attributes:
        questions: answered at the same time.
        question_tokens: that question, thinking and answer of one have together at most.
        pass_tokens: that go through the model in one pass at most.
    """

    questions: int = 1
    question_tokens: int = 0
    pass_tokens: int = 0


@dataclass(frozen=True)
class MemoryLimits:
    """Bytes that documents may have in each tier."""

    device_bytes: int
    host_bytes: int
    staging_bytes: int


def memory_limits(model: LoadedModel, config: MemoryConfig, work: Work) -> MemoryLimits:
    """Return how much memory documents may have beside a loaded model and its work."""
    on_gpu = model.device.type == "cuda"
    device, host = config.device_bytes, config.host_bytes
    if device is None:
        share = config.device_share or (GPU_SHARE if on_gpu else CPU_SHARE)
        device = _gpu_bytes(model, share, work) if on_gpu else int(share * available_bytes())
    if host is None:
        host = int(HOST_SHARE * available_bytes()) if on_gpu else 0
    return MemoryLimits(max(0, device), host, config.staging_bytes)


def work_bytes(model: LoadedModel, work: Work) -> int:
    """Estimate the device memory that questions and passes take beside weights and documents.

    All questions together are counted as if they were of ordinary length, and one as the longest.
    """
    ordinary = work.questions * min(work.question_tokens, ORDINARY_TOKENS)
    keys = max(ordinary, 2 * work.question_tokens) * _key_bytes(model)
    return keys + _pass_bytes(model, work.pass_tokens)


def _gpu_bytes(model: LoadedModel, share: float, work: Work) -> int:
    """What a share of the GPU leaves beside all that is on it now, whoever it belongs to."""
    free, total = torch.cuda.mem_get_info(model.device)
    unused = torch.cuda.memory_reserved(model.device) - torch.cuda.memory_allocated(model.device)
    taken = total - free - unused
    return int(share * total) - taken - work_bytes(model, work) - GPU_SLACK_BYTES


def _key_bytes(model: LoadedModel) -> int:
    """Keys and values of one token in all layers."""
    numbers = sum(2 * layer.num_kv_heads * layer.head_dim for layer in model.spec.layers)
    return numbers * model.dtype.itemsize


def _pass_bytes(model: LoadedModel, num_tokens: int) -> int:
    """The activations of one layer: hidden states, projections, and the wide ones between them."""
    config: Any = getattr(model.model, "config", None)
    config = config and config.get_text_config()
    hidden = int(getattr(config, "hidden_size", 0))
    wide = getattr(config, "intermediate_size", None)
    width = hidden + (wide if isinstance(wide, int) else 4 * hidden)
    return num_tokens * 3 * width * model.dtype.itemsize
