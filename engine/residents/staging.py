"""The way between the host's memory and a device: threads, and pinned buffers of a bounded size.

A GPU copies at full speed from page-locked (pinned) memory alone. What is read from files goes
through a few pinned buffers, each filled while others are being copied, by several threads, as it
is hashed on the way; documents in the host's memory lie in page-locked memory of their own. On a
CPU pieces go straight to their place.
"""

import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from engine.cpu_threads import keep_to_threads, release_worker_threads
from engine.residents.locked_memory import LockedMemory, split_at_pieces

PIECE_BYTES = 8 << 20  # small enough that a piece is hashed while it is in a processor's cache
STAGES_PER_THREAD = 2  # one is filled while the other is copied
TENSOR_ALIGNMENT = 256  # bytes, of tensors in a piece of memory that holds several
WORD = 8
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
        # Answers compute on one thread each; copies do not.
        self._copier = ThreadPoolExecutor(
            1, "staging-copier", partial(keep_to_threads, torch.get_num_threads())
        )
        self._making = threading.Lock()
        self._locked = LockedMemory() if device.type == "cuda" else None
        self._stages: queue.SimpleQueue[Tensor] | None = None
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """End the threads; copies under way are finished."""
        self._threads.shutdown()
        self._copier.shutdown()
        if self._locked is not None:
            self._locked.close()

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
            self._synchronize()  # even after an error: memory that is copied to is not to be freed
            for error in errors:
                if not isinstance(error, _Stopped):
                    raise error
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

    def to_device(self, sources: Sequence[Tensor]) -> list[Tensor]:
        """Copy contiguous tensors of the host to the device, in order.

        Those that `to_host` made together lie in one piece of memory again, which is copied as one:
        a document has hundreds of tensors, and each copy costs some 50 us of Python.

        One thread is enough: a GPU copies page-locked memory by itself, and on a CPU torch copies
        large pieces by all of the processors.

        Raises: torch.OutOfMemoryError; then nothing is left of the copies.
        """
        return self._copier.submit(self._to_device, sources).result()

    def to_host(self, sources: Sequence[Tensor]) -> list[Tensor]:
        """Copy contiguous tensors of the device to the host; within `map` only.

        By several threads, as most of the time goes into the host's new pages.

        Returns: tensors of the same shapes and dtypes, in one piece of memory of their own, which
            is page-locked behind a GPU.
        """
        ends = list(accumulate(-(-source.nbytes // TENSOR_ALIGNMENT) for source in sources))
        begins = [TENSOR_ALIGNMENT * end for end in (0, *ends)]
        num_bytes = begins.pop()
        memory = _empty_bytes(num_bytes) if self._locked is None else self._locked.empty(num_bytes)
        targets = list(map(_view, [memory] * len(sources), begins, sources))
        for source, target in zip(sources, targets, strict=True):
            for place, part in _pieces(_bytes_of(target), _bytes_of(source)):
                if self._stream is None:  # without torch's threads, beside those that this runs on
                    np.copyto(place.numpy(), part.numpy())
                else:
                    place.copy_(part, non_blocking=True)
        return targets

    def _to_device(self, sources: Sequence[Tensor]) -> list[Tensor]:
        """See `to_device`; always on the same thread, whose workers are not made anew."""
        with self._on_stream():
            targets = [one if one.numel() else self.empty(one.shape, one.dtype) for one in sources]
            pairs = []
            for data, members in _spans(sources):
                memory = self.empty(data.shape, data.dtype)
                pairs.append((data, memory))
                for index, begin in members:
                    targets[index] = _view(memory, begin, sources[index])
            for data, memory in pairs:
                for part, place in _pieces(data, memory):
                    _copy(place, part)
            self._synchronize()
        if self._stream is None:
            release_worker_threads()  # as answers are computed by the same processors
        return targets

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


def _view(memory: Tensor, begin: int, like: Tensor) -> Tensor:
    """View the bytes from `begin` on as a tensor like another one."""
    return memory[begin : begin + like.nbytes].view(like.dtype).view(like.shape)


class _Span(NamedTuple):
    """Tensors that lie behind each other in one piece of memory.

    Attributes:
        data: its bytes, from the first one's first to the last one's last.
        members: the index of each tensor, and where it begins in `data`.
    """

    data: Tensor
    members: list[tuple[int, int]]


def _spans(tensors: Sequence[Tensor]) -> list[_Span]:
    """Gather consecutive tensors of one piece of memory, as `Staging.to_host` lays them.

    Those without a number are left out.
    """
    groups: list[list[tuple[int, int]]] = []  # indices, and places from the first one's on
    memory = start = end = 0  # of the last group: addresses
    for index, tensor in enumerate(tensors):
        if not tensor.numel():
            continue
        place, own = tensor.data_ptr(), tensor.untyped_storage().data_ptr()
        follows = own == memory and 0 <= place - end < TENSOR_ALIGNMENT
        if follows and (place - start) % TENSOR_ALIGNMENT == 0:
            groups[-1].append((index, place - start))
        else:
            groups.append([(index, 0)])
            memory, start = own, place
        end = place + tensor.nbytes
    spans = []
    for members in groups:
        first, (last, begin) = tensors[members[0][0]], members[-1]
        offset = first.storage_offset() * first.element_size()
        size = (begin + tensors[last].nbytes,)
        data = torch.empty(0, dtype=torch.uint8)
        data.set_(first.untyped_storage(), offset, size, (1,))
        spans.append(_Span(data, members))
    return spans


def _empty_bytes(num_bytes: int) -> Tensor:
    """Bytes on the host; numpy asks for huge pages, unlike torch."""
    return torch.from_numpy(np.empty(max(1, num_bytes), np.uint8))[:num_bytes]


def _pieces(locked: Tensor, other: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Split bytes that may lie in locked memory, and as many others in the same way."""
    parts = split_at_pieces(locked)
    return zip(parts, torch.split(other, [len(part) for part in parts]), strict=True)


def _copy(target: Tensor, source: Tensor) -> None:
    """Copy bytes from the host; torch spreads words over processors better than bytes."""
    num_bytes = source.numel()
    words = num_bytes > 0 and num_bytes % WORD == 0
    if words and source.storage_offset() % WORD == 0 and target.storage_offset() % WORD == 0:
        target, source = target.view(torch.int64), source.view(torch.int64)
    target.copy_(source, non_blocking=True)
