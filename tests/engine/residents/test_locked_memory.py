"""Memory that a driver locks: what it is told, and when memory is given back."""

import gc
import logging
import mmap
import threading

import pytest
import torch

from engine.residents.locked_memory import PIECE_BYTES, LockedMemory, split_at_pieces


class Driver:
    """Records what is locked; refuses what goes beyond its limit."""

    def __init__(self, limit: int = 1 << 40) -> None:
        self.limit = limit
        self.locked: dict[int, int] = {}
        self.unlocked = threading.Event()
        self.on: set[str] = set()

    def lock(self, address: int, num_bytes: int) -> bool:
        """Lock a piece, if all that is locked stays within the limit."""
        if sum(self.locked.values()) + num_bytes > self.limit:
            return False
        self.locked[address] = num_bytes
        return True

    def unlock(self, address: int) -> None:
        """Unlock a piece."""
        del self.locked[address]
        self.on.add(threading.current_thread().name)
        if not self.locked:
            self.unlocked.set()


@pytest.mark.parametrize("num_bytes", [1, 4096, 100_001, PIECE_BYTES, 2 * PIECE_BYTES + 3])
def test_all_of_a_tensor_is_locked_until_its_last_view_goes(num_bytes: int) -> None:
    driver = Driver()
    memory = LockedMemory(driver.lock, driver.unlock)
    tensor = memory.empty(num_bytes)
    tensor.fill_(7)
    assert tensor.shape == (num_bytes,)
    begin = min(driver.locked)
    assert begin == tensor.data_ptr()
    for address, size in sorted(driver.locked.items()):  # one behind the other
        assert address == begin
        assert address % mmap.PAGESIZE == 0
        assert size <= PIECE_BYTES
        begin += size
    assert begin == tensor.data_ptr() + num_bytes
    last = tensor[-1:].view(torch.uint8)
    del tensor
    gc.collect()
    assert driver.locked
    assert last.item() == 7
    del last
    assert driver.unlocked.wait(10)
    assert driver.on == {"memory-unlocker_0"}
    memory.close()


def test_memory_that_outlives_its_allocator_is_unlocked() -> None:
    driver = Driver()
    memory = LockedMemory(driver.lock, driver.unlock)
    tensor = memory.empty(5)
    memory.close()
    assert driver.locked
    del tensor
    assert not driver.locked


def test_where_the_driver_locks_nothing_tensors_are_ordinary_ones_and_the_log_says_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = Driver(limit=PIECE_BYTES)
    memory = LockedMemory(driver.lock, driver.unlock)
    with caplog.at_level(logging.WARNING, "lectern.memory"):
        large, small = memory.empty(2 * PIECE_BYTES), memory.empty(10)
    assert [record.message for record in caplog.records] == [
        "the driver does not lock memory: documents in it are copied more slowly"
    ]
    assert list(driver.locked) == [large.data_ptr()]
    large[-1], small[-1] = 3, 4
    assert (large[-1].item(), small[-1].item()) == (3, 4)
    del large
    assert driver.unlocked.wait(10)
    memory.close()


def test_an_empty_tensor_has_no_bytes() -> None:
    driver = Driver()
    memory = LockedMemory(driver.lock, driver.unlock)
    assert memory.empty(0).numel() == 0
    memory.close()


@pytest.mark.parametrize(
    ("begin", "end", "sizes"),
    [
        (0, 5, [5]),
        (3, PIECE_BYTES, [PIECE_BYTES - 3]),
        (3, PIECE_BYTES + 1, [PIECE_BYTES - 3, 1]),
        (PIECE_BYTES - 1, 3 * PIECE_BYTES, [1, PIECE_BYTES, PIECE_BYTES]),
        (PIECE_BYTES, PIECE_BYTES + 7, [7]),
    ],
)
def test_bytes_are_split_where_pieces_end(begin: int, end: int, sizes: list[int]) -> None:
    whole = torch.empty(3 * PIECE_BYTES, dtype=torch.uint8)
    parts = split_at_pieces(whole[begin:end])
    assert [len(part) for part in parts] == sizes
    assert [part.data_ptr() for part in parts] == [
        whole.data_ptr() + begin + sum(sizes[:index]) for index in range(len(sizes))
    ]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_takes_the_memory_for_locked() -> None:
    memory = LockedMemory()
    tensor = memory.empty(2 * PIECE_BYTES + 5)
    assert tensor.is_pinned()
    tensor.random_(256)
    there = [part.to("cuda", non_blocking=True) for part in split_at_pieces(tensor[7:])]
    assert torch.equal(torch.cat(there).cpu(), tensor[7:].clone())
    memory.close()
