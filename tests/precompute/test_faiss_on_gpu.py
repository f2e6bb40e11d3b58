"""The FAISS back end where FAISS's build knows GPUs, with a stand-in for its module."""

import importlib
import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import precompute.clustering
from precompute.clustering.base import KMeansConfig
from tests.engine.naive import normal

HEADS, WIDTH = 2, 16


class GpuFaiss(ModuleType):
    """What is used of a FAISS with GPUs: it takes tensors once its torch part was imported."""

    def __init__(self) -> None:
        super().__init__("faiss")
        self.__path__: list[str] = []
        self.num_gpus = 1
        self.searched: list[tuple[int, ...]] = []
        self.resources: list[object] = []

    def get_num_gpus(self) -> int:
        return self.num_gpus

    def StandardGpuResources(self) -> object:
        self.resources.append(object())
        return self.resources[-1]

    def knn_gpu(
        self, resources: object, queries: Tensor, base: Tensor, count: int
    ) -> tuple[Tensor, Tensor]:
        assert "faiss.contrib.torch_utils" in sys.modules
        assert resources is self.resources[-1]
        assert isinstance(queries, Tensor)
        assert isinstance(base, Tensor)
        assert queries.dtype == base.dtype == torch.float32
        self.searched.append(tuple(queries.shape))
        found = torch.cdist(queries, base).topk(count, largest=False)
        return found.values, found.indices


@pytest.fixture
def faiss(monkeypatch: pytest.MonkeyPatch) -> GpuFaiss:
    stand_in = GpuFaiss()
    contrib, torch_utils = ModuleType("faiss.contrib"), ModuleType("faiss.contrib.torch_utils")
    contrib.torch_utils = torch_utils  # type: ignore[attr-defined]
    contrib.__path__ = []
    stand_in.contrib = contrib  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "faiss", stand_in)
    monkeypatch.setitem(sys.modules, "faiss.contrib", contrib)
    monkeypatch.setitem(sys.modules, "faiss.contrib.torch_utils", torch_utils)
    # Another test may have imported the back end over the real FAISS: it stands in two places.
    monkeypatch.setattr(precompute.clustering, "faiss", None, raising=False)
    monkeypatch.setitem(sys.modules, "precompute.clustering.faiss", ModuleType("placeholder"))
    monkeypatch.delitem(sys.modules, "precompute.clustering.faiss")
    return stand_in


def build(monkeypatch: pytest.MonkeyPatch, *, on_gpu: bool) -> Any:
    back_end: Any = importlib.import_module("precompute.clustering.faiss")
    if on_gpu:
        monkeypatch.setattr(back_end, "is_on_gpu", lambda points: back_end.faiss.get_num_gpus() > 0)
    return back_end.build(KMeansConfig(iterations=20, seed=1))


def test_a_gpu_is_taken_without_copies_through_the_host(
    faiss: GpuFaiss, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = normal(HEADS, 150, WIDTH)

    def no_copy(*_: object) -> None:
        raise AssertionError("a copy through the host")

    kmeans = build(monkeypatch, on_gpu=True)
    monkeypatch.setattr(Tensor, "numpy", no_copy)
    told: list[str] = []
    monkeypatch.setattr("precompute.clustering.faiss.log.info", told.append)
    for _ in range(2):
        labels = kmeans.labels(points, torch.ones(HEADS, 150), 9)
    means = torch.stack([points[0, labels[0] == one].mean(0) for one in range(9)])
    assert_close(torch.cdist(points[0], means).argmin(1), labels[0])
    assert set(faiss.searched) == {(150, WIDTH)}
    assert told == ["keys are clustered by FAISS on the GPU"]


def test_keys_on_a_cpu_or_a_build_without_gpus_stay_on_the_cpu(
    faiss: GpuFaiss, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(monkeypatch, on_gpu=False)
    is_on_gpu = sys.modules["precompute.clustering.faiss"].is_on_gpu

    class OnGpu:
        is_cuda = True

    assert not is_on_gpu(normal(1, 2, 3))
    assert is_on_gpu(OnGpu())  # type: ignore[arg-type]
    faiss.num_gpus = 0
    assert not is_on_gpu(OnGpu())  # type: ignore[arg-type]
