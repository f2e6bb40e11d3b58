"""Tensors as the bytes of a safetensors file, piece by piece from where they lie.

The format's own library copies a document's gigabytes three times, one core at a time. Here they go
from a GPU through two pinned stages to whoever writes them, and from a CPU without a copy.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence

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
STAGE_BYTES = 1 << 25  # of pinned memory, twice, on the way from a GPU


class SafetensorsFile:
    """The bytes of one file, which may be read on another thread than the one that made it.

    Args:
        tensors: contiguous, all on one device, of the dtypes in `NAMES`; they must not be changed
            before the bytes were read.
    Source: https://huggingface.co/docs/safetensors, "Format".
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
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
        self._prefix = len(header).to_bytes(8, "little") + header
        self._data = [tensor.flatten().view(torch.uint8) for _, tensor in ordered]
        self._made: torch.cuda.Event | None = None
        if any(data.is_cuda for data in self._data):
            self._made = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._made.record()
        self.num_bytes = len(self._prefix) + end

    def pieces(self) -> Iterator[memoryview]:
        """Yield the bytes in their order; a piece is valid until the next one is asked for."""
        yield memoryview(self._prefix)
        if self._made is not None:
            parts = [
                part for one in self._data for part in torch.split(one, STAGE_BYTES) if len(part)
            ]
            yield from _from_gpu(parts, self._made)
            return
        for data in self._data:
            yield data.numpy().data

    def whole(self) -> memoryview:
        """All bytes at once, in memory of their own."""
        data, end = bytearray(self.num_bytes), 0
        for piece in self.pieces():  # not joined: a join asks for all pieces before it copies one
            data[end : end + len(piece)] = piece
            end += len(piece)
        return memoryview(data)


def _from_gpu(parts: Sequence[Tensor], made: torch.cuda.Event) -> Iterator[memoryview]:
    """Bring parts to the host by two pinned stages, one filled while the other is in use.

    The copies have a stream of their own, on which nothing waits for what is computed meanwhile.

    Args:
        made: after this event the parts are complete.
    """
    if not parts:
        return
    stages = torch.empty(2, max(map(len, parts)), dtype=torch.uint8, pin_memory=True)
    filled = [torch.cuda.Event() for _ in stages]  # type: ignore[no-untyped-call]
    stream = torch.cuda.Stream(parts[0].device)  # type: ignore[no-untyped-call]
    stream.wait_event(made)

    def fill(index: int) -> None:
        with torch.cuda.stream(stream):
            stages[index % 2, : len(parts[index])].copy_(parts[index], non_blocking=True)
            filled[index % 2].record()

    fill(0)
    for index, part in enumerate(parts):
        if index + 1 < len(parts):
            fill(index + 1)
        filled[index % 2].synchronize()
        yield stages[index % 2, : len(part)].numpy().data
