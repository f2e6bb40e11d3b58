"""Copies of whole tensors between the host and a device."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from engine.residents import staging as module
from engine.residents.staging import Staging

DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
    ),
]


def tensors() -> list[Tensor]:
    """Of all kinds of sizes: none, some bytes, and several thousand."""
    return [
        torch.arange(5000, dtype=torch.int32).view(50, 100),
        torch.zeros(3, 0, 8),
        torch.randn(3, 7, 11),
        torch.randint(0, 255, (13,), dtype=torch.uint8),
        torch.randn(40, 333).to(torch.bfloat16),
        torch.arange(6, dtype=torch.int32)[1:],  # begins in the middle of a word
        torch.tensor([5]),
    ]


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_come_back_as_they_were(device: str) -> None:
    staging = Staging(torch.device(device), 4096, 1024)
    sources = tensors()
    there = staging.to_device(sources)
    (back,) = staging.map(staging.to_host, [there])
    assert len({one.untyped_storage().data_ptr() for one in back}) == 1
    assert back[0].is_pinned() == (device == "cuda")
    again = staging.to_device(back)
    assert len({one.untyped_storage().data_ptr() for one in again if one.numel()}) == 1
    assert all(one.data_ptr() % 16 == 0 for one in again)
    for source, copy in zip(sources, again, strict=True):
        assert copy.dtype == source.dtype
        assert torch.equal(copy.cpu(), source)
    for source, on_device, copy in zip(sources, there, back, strict=True):
        assert on_device.device.type == device
        assert copy.dtype == source.dtype
        assert torch.equal(copy, source)
        assert torch.equal(on_device.cpu(), source)
        if source.numel():
            assert copy.data_ptr() != source.data_ptr()
    staging.close()


@pytest.fixture
def threads() -> Iterator[None]:
    """Whatever a test sets is set back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_copies_are_spread_over_all_threads_whatever_answers_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[int] = []
    monkeypatch.setattr(module, "_copy", lambda *_: found.append(torch.get_num_threads()))
    torch.set_num_threads(3)
    staging = Staging(torch.device("cpu"), 4096, 1024)
    for _ in range(2):
        torch.set_num_threads(1)
        staging.to_device([torch.arange(5)])
    staging.close()
    assert found == [3, 3]


def test_tensors_of_one_memory_are_copied_without_what_lies_far_between_them() -> None:
    whole = torch.arange(10_000)
    staging = Staging(torch.device("cpu"), 4096, 1024)
    first, second = staging.to_device([whole[:10], whole[9_000:9_010]])
    assert torch.equal(first, whole[:10])
    assert torch.equal(second, whole[9_000:9_010])
    assert first.untyped_storage().nbytes() + second.untyped_storage().nbytes() < 1000
    backwards = staging.to_device([whole[32:64], whole[:32], whole[1:3]])
    assert [one.tolist() for one in backwards] == [
        list(range(32, 64)), list(range(32)), [1, 2],
    ]  # fmt: skip
    staging.close()


def test_an_error_is_raised_when_the_copies_under_way_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    staging = Staging(torch.device("cpu"), 4096, 1024)
    ended: list[str] = []
    monkeypatch.setattr(staging, "_synchronize", lambda: ended.append("copies"))

    def fail(_: int) -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        staging.map(fail, [1])
    assert ended == ["copies"], "their memory is freed with the error"
    staging.close()
