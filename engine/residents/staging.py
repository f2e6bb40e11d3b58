"""The way between the host's memory and a device: threads, and pinned buffers of a bounded size.

A GPU copies at full speed from pinned memory alone, and pinned memory is taken from everybody else:
so pieces go through a few buffers, each filled while others are being copied. On a CPU pieces go
straight to their place.
"""

import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

PIECE_BYTES = 8 << 20  # small enough that a piece is hashed while it is in a processor's cache
STAGES_PER_THREAD = 2  # one is filled while the other is copied
MOST_THREADS = 16
Item = TypeVar("Item")
Result = TypeVar("Result")
Fill = Callable[[memoryview], None]


class Staging:
    """Copies bytes to and from one device, by a few threads.

    Args:
        device: where documents go.
        num_bytes: of pinned memory, on a GPU; at least two pieces are taken.
        piece_bytes: copied at a time.
    """

    def __init__(
        self, device: torch.device, num_bytes: int, piece_bytes: int = PIECE_BYTES
    ) -> None:
        self.device = device
        self._piece_bytes = piece_bytes
        num_stages = max(STAGES_PER_THREAD, num_bytes // piece_bytes)
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 4
        self.num_threads = max(1, min(MOST_THREADS, cpus, num_stages // STAGES_PER_THREAD))
        self._threads = ThreadPoolExecutor(self.num_threads, "staging")
        self._num_stages = STAGES_PER_THREAD * self.num_threads
        self._making = threading.Lock()
        self._stages: queue.SimpleQueue[Tensor] | None = None
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """End the threads; copies under way are finished."""
        self._threads.shutdown()

    def warm_up(self) -> None:
        """Take the pinned memory now rather than with the first document."""
        if self._stream is not None:
            self._pinned()

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Do work on the threads, all copies included; the first error stops what has not begun.

        Returns: the results in order.
        """
        stopped = threading.Event()

        def guarded(item: Item) -> Result:
            if stopped.is_set():
                raise _Stopped
            try:
                with self._on_stream():
                    return work(item)
            except BaseException:
                stopped.set()
                raise

        futures = [self._threads.submit(guarded, item) for item in items]
        errors = [error for future in futures if (error := future.exception()) is not None]
        try:
            for error in errors:
                if not isinstance(error, _Stopped):
                    raise error
            self._synchronize()
            return [future.result() for future in futures]
        finally:
            del errors, futures  # an error's frames hold what was copied so far

    def empty(self, shape: Iterable[int], dtype: torch.dtype) -> Tensor:
        """Allocate a tensor on the device."""
        return torch.empty(tuple(shape), dtype=dtype, device=self.device)

    def fill(self, target: Tensor, fill: Fill) -> None:
        """Fill a contiguous tensor of the device with bytes, piece by piece; within `map` only.

        Args:
            fill: writes the next bytes into the buffer that it is given, as many as that holds.
        """
        pieces = torch.split(_bytes_of(target), self._piece_bytes) if target.numel() else ()
        if self._stream is None:
            for piece in pieces:
                fill(piece.numpy().data)
            return
        with self._two_stages() as stages:
            for index, piece in enumerate(pieces):
                stage, copied = stages[index % 2]
                copied.synchronize()
                fill(stage.numpy()[: len(piece)].data)
                piece.copy_(stage[: len(piece)], non_blocking=True)
                copied.record(self._stream)

    def to_device(self, source: Tensor) -> Tensor:
        """Copy a contiguous tensor of the host to the device; within `map` only."""
        target, offset = self.empty(source.shape, source.dtype), 0
        data = _bytes_of(source).numpy()

        def fill(buffer: memoryview) -> None:
            nonlocal offset
            np.copyto(np.frombuffer(buffer, np.uint8), data[offset : offset + len(buffer)])
            offset += len(buffer)

        self.fill(target, fill)
        return target

    def to_host(self, source: Tensor) -> Tensor:
        """Copy a contiguous tensor of the device to the host; within `map` only."""
        if source.numel() == 0:
            return torch.empty(source.shape, dtype=source.dtype)
        target = np.empty(source.nbytes, np.uint8)  # asks for huge pages, unlike torch
        places = _pieces(target, self._piece_bytes)
        pieces = torch.split(_bytes_of(source), self._piece_bytes)
        if self._stream is None:
            for piece, place in zip(pieces, places, strict=True):
                np.copyto(place, piece.numpy())
        else:
            with self._two_stages() as stages:
                waiting: tuple[np.ndarray[Any, Any], Tensor, Any] | None = None
                for index, (piece, place) in enumerate(zip(pieces, places, strict=True)):
                    stage, copied = stages[index % 2]
                    stage[: len(piece)].copy_(piece, non_blocking=True)
                    copied.record(self._stream)
                    _empty(waiting)
                    waiting = place, stage[: len(piece)], copied
                _empty(waiting)
        return torch.from_numpy(target).view(source.dtype).view(source.shape)

    @contextmanager
    def _two_stages(self) -> Iterator[list[tuple[Tensor, Any]]]:
        """Have two pinned buffers, each with the event of its last copy, over at the end."""
        pinned = self._pinned()
        stages = [(pinned.get(), torch.cuda.Event()) for _ in range(STAGES_PER_THREAD)]  # type: ignore[no-untyped-call]
        try:
            yield stages
        finally:
            for stage, copied in stages:
                copied.synchronize()
                pinned.put(stage)

    def _pinned(self) -> "queue.SimpleQueue[Tensor]":
        with self._making:
            if self._stages is None:
                self._stages = queue.SimpleQueue()
                size = (self._num_stages, self._piece_bytes)
                for stage in torch.empty(size, dtype=torch.uint8, pin_memory=True):
                    self._stages.put(stage)
            return self._stages

    def _on_stream(self) -> Any:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)

    def _synchronize(self) -> None:
        if self._stream is not None:
            self._stream.synchronize()


class _Stopped(Exception):
    """Other work of the same call has failed."""


def _bytes_of(tensor: Tensor) -> Tensor:
    return tensor.detach().reshape(-1).view(torch.uint8)


def _pieces(data: "np.ndarray[Any, Any]", size: int) -> "list[np.ndarray[Any, Any]]":
    return [data[start : start + size] for start in range(0, len(data), size)]


def _empty(waiting: "tuple[np.ndarray[Any, Any], Tensor, Any] | None") -> None:
    """Take what was copied into a pinned buffer to its place."""
    if waiting is not None:
        place, stage, copied = waiting
        copied.synchronize()
        np.copyto(place, stage.numpy())
