"""Page-locked memory of the host: a GPU copies from and to it by itself, at full speed.

From other memory the driver has to copy through buffers of its own, some seven times slower.
"""

import logging
import mmap
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

PIECE_BYTES = 32 << 20  # locked at a time, some 2 ms, in which the driver launches nothing
Lock = Callable[[int, int], bool]
Unlock = Callable[[int], object]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
log = logging.getLogger("lectern.memory")


def split_at_pieces(data: Tensor) -> tuple[Tensor, ...]:
    """Split bytes of a `LockedMemory` where one locked piece ends: no copy may go beyond it.

    Args:
        data: (bytes,) uint8, contiguous; bytes of other memory are split somewhere.
    """
    begin, end = data.storage_offset(), data.storage_offset() + len(data)
    borders = [begin, *range(begin - begin % PIECE_BYTES + PIECE_BYTES, end, PIECE_BYTES), end]
    return tuple(data[one - begin : other - begin] for one, other in pairwise(borders))


def lock_for_cuda(address: int, num_bytes: int) -> bool:
    """Lock memory for copies by CUDA devices; return whether the driver did."""
    driver: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    locked = int(driver.cudaHostRegister(address, num_bytes, 0)) == 0
    if not locked:
        _clear_error()
    return locked


def unlock_for_cuda(address: int) -> None:
    """Unlock what `lock_for_cuda` locked."""
    driver: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    driver.cudaHostUnregister(address)


class LockedMemory:
    """Allocates page-locked memory, which is unlocked and given back when its last tensor goes.

    That is done by a thread of its own, as it takes some 20 ms for each GB. Where the driver does
    not lock memory, tensors are in ordinary memory, and the log says so once.

    Args:
        lock, unlock: take an address, `lock` also a number of bytes, and returns whether it did.
    """

    def __init__(self, lock: Lock = lock_for_cuda, unlock: Unlock = unlock_for_cuda) -> None:
        self._lock, self._unlock = lock, unlock
        self._refused = threading.Event()
        self._unlocker = ThreadPoolExecutor(1, "memory-unlocker")

    def empty(self, num_bytes: int) -> Tensor:
        """Allocate bytes, without a value. Raises: MemoryError."""
        whole = np.empty(num_bytes + 2 * mmap.PAGESIZE, np.uint8)  # in huge pages, unlike torch's
        begin = -whole.ctypes.data % mmap.PAGESIZE
        memory = whole[begin : begin + max(1, num_bytes)]
        # Touching a page makes the system allocate it: most of the time goes there, and should not
        # go by while the driver is locking.
        memory[:: mmap.PAGESIZE] = 0
        locked = []
        for piece in np.split(memory, range(PIECE_BYTES, memory.nbytes, PIECE_BYTES)):
            if not self._lock_piece(piece.ctypes.data, piece.nbytes):
                break
            locked.append(piece.ctypes.data)
        weakref.finalize(memory, self._give_back, whole, locked).atexit = False
        return torch.from_numpy(memory)[:num_bytes]

    def close(self) -> None:
        """End the thread; what it has been given is unlocked before."""
        self._unlocker.shutdown()

    def _lock_piece(self, address: int, num_bytes: int) -> bool:
        """Lock a piece of memory, unless the driver has refused one before."""
        if self._refused.is_set():
            return False
        if self._lock(address, num_bytes):
            return True
        self._refused.set()
        log.warning("the driver does not lock memory: documents in it are copied more slowly")
        return False

    def _give_back(self, whole: Bytes, locked: list[int]) -> None:
        """Unlock pieces of memory, which is freed afterwards, and not before."""
        try:
            self._unlocker.submit(self._unlock_all, whole, locked)
        except RuntimeError:  # it is closed
            self._unlock_all(whole, locked)

    def _unlock_all(self, whole: Bytes, locked: list[int]) -> None:
        for address in locked:
            self._unlock(address)
        del whole


def _clear_error() -> None:
    """Let the next launch of this thread not raise what the last call returned."""
    try:
        torch.zeros(1, device="cuda")
    except RuntimeError:
        log.debug("an error of the driver was cleared", exc_info=True)
