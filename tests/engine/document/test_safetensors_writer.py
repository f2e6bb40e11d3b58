"""Files of tensors: whoever reads the format reads them."""

import json
from collections.abc import Mapping

import pytest
import torch
from safetensors.torch import load
from torch import Tensor

from engine.document.safetensors_writer import NAMES, SafetensorsFile

SHAPES = [(), (0,), (3,), (2, 0, 5), (7, 3, 5)]


def serialized(tensors: Mapping[str, Tensor]) -> memoryview:
    file = SafetensorsFile(tensors)
    data = file.whole()
    assert len(data) == file.num_bytes
    return data


def drawn(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return (torch.rand(shape) * 200).to(dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_library_of_the_format_finds_every_tensor(shape: tuple[int, ...]) -> None:
    tensors = {f"a {dtype}": drawn(shape, dtype) for dtype in NAMES}
    found = load(bytes(serialized(tensors)))
    assert set(found) == set(tensors)
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def test_no_tensor_is_a_file_too() -> None:
    assert load(bytes(serialized({}))) == {}


@pytest.mark.parametrize("dtype", NAMES, ids=str)
def test_every_tensor_lies_at_a_multiple_of_its_width(dtype: torch.dtype) -> None:
    tensors = {"odd": drawn((3,), torch.uint8), "one": drawn((1,), torch.float16)}
    data = serialized({**tensors, "wide": drawn((5,), dtype)})
    end = 8 + int.from_bytes(data[:8], "little")
    begin, _ = json.loads(bytes(data[8:end]))["wide"]["data_offsets"]
    assert (end + begin) % dtype.itemsize == 0


def test_equal_tensors_give_equal_bytes() -> None:
    tensors = {"b": drawn((4,), torch.float32), "a": drawn((4,), torch.float32)}
    assert serialized(tensors) == serialized(dict(reversed(tensors.items())))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="copies from a GPU")
def test_tensors_come_from_a_gpu_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.document.safetensors_writer.STAGE_BYTES", 1000)
    tensor = torch.arange(3333)
    assert torch.equal(load(bytes(serialized({"a": tensor.cuda()})))["a"], tensor)
