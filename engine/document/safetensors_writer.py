"""Tensors as the bytes of a safetensors file, copied once: from where they lie to their place.

The format's own library copies a document's gigabytes three times, one core at a time.
"""

import json
import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

NAMES = {
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
}
ALIGNMENT = 8  # of the first tensor in the file
STAGE_BYTES = 1 << 26  # of pinned memory, twice, on the way from a GPU


def serialize(tensors: Mapping[str, Tensor]) -> memoryview:
    """The file's bytes, in host memory.

    Args:
        tensors: contiguous, on any device, of the dtypes in `NAMES`.
    Source: https://huggingface.co/docs/safetensors, "Format".
    """
    # Wider elements first: each begins at a multiple of its own width.
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0]))
    described, end = {}, 0
    for name, tensor in ordered:
        begin, end = end, end + tensor.nbytes
        described[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    header = json.dumps(described, separators=(",", ":")).encode()
    header = header.ljust(math.ceil(len(header) / ALIGNMENT) * ALIGNMENT)
    prefix = len(header).to_bytes(8, "little") + header
    data = np.empty(len(prefix) + end, dtype=np.uint8)  # asks for huge pages, unlike torch
    data[: len(prefix)] = np.frombuffer(prefix, dtype=np.uint8)
    body = torch.from_numpy(data)[len(prefix) :]
    places = torch.split(body, [tensor.nbytes for _, tensor in ordered])
    for (_, tensor), place in zip(ordered, places, strict=True):
        _copy(tensor.flatten().view(torch.uint8), place)
    return data.data


def _copy(source: Tensor, target: Tensor) -> None:
    """Copy bytes to the host; from a GPU by two pinned stages, one filled as the other empties."""
    if not source.is_cuda:
        target.copy_(source)
        return
    stages = torch.empty(2, min(STAGE_BYTES, len(source)), dtype=torch.uint8, pin_memory=True)
    filled = [torch.cuda.Event() for _ in stages]  # type: ignore[no-untyped-call]
    places = torch.split(target, STAGE_BYTES)
    for index, piece in enumerate(torch.split(source, STAGE_BYTES)):
        stages[index % 2, : len(piece)].copy_(piece, non_blocking=True)
        filled[index % 2].record()
        if index > 0:
            _empty(stages[(index - 1) % 2], filled[(index - 1) % 2], places[index - 1])
    last = len(places) - 1
    _empty(stages[last % 2], filled[last % 2], places[last])


def _empty(stage: Tensor, filled: torch.cuda.Event, place: Tensor) -> None:
    filled.synchronize()
    place.copy_(stage[: len(place)])
