"""A full GPU: other documents are removed, the caller gets an error, and no memory is leaked."""

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient

from app.factory import create_app
from app.services import document_loader
from app.services.services import Services, make_services
from common.errors import GpuBusy
from engine.decode.answer import TextDelta
from engine.model.memory import out_of_memory_as_busy
from engine.residents.entry import Reason
from engine.residents.file_loading import load_document
from tests.app.documents.test_routes import events
from tests.app.engines import with_script
from tests.app.seeding import TEXT, StorageSeeder

QUESTION = {"question": "When does the gate close?", "max_tokens": 4}


class FullGpu:
    """An allocator that fails `times` times; ours to fill, since this machine has no GPU."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __call__(self, *given: Any, **named: Any) -> Any:
        if self.times > 0:
            self.times -= 1
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9.00 GiB.")
        return load_document(*given, **named)


@contextmanager
def client_of(services: Services, seeder: StorageSeeder) -> Iterator[TestClient]:
    with TestClient(create_app(services), headers=seeder.headers()) as client:
        yield client


def test_other_documents_make_room_for_the_one_that_is_asked(
    services: Services, seeder: StorageSeeder, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = FullGpu(times=0)
    monkeypatch.setattr(document_loader, "load_document", full)
    with client_of(services, seeder) as client:
        first = seeder.ready(client)
        second = seeder.ready(client, text=TEXT + " Another.")
        assert client.post(f"/documents/{first}/ask", json=QUESTION).status_code == 200
        full.times = 1
        assert client.post(f"/documents/{second}/ask", json=QUESTION).status_code == 200
        assert services.resident_documents.occupancy().device.documents == 1
        assert not client.post(f"/documents/{first}/ask", json=QUESTION).json()["cache_hit"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_gpu_that_stays_full_is_a_503_that_passes(
    services: Services, seeder: StorageSeeder, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_loader, "load_document", FullGpu(times=2))
    with client_of(services, seeder) as client:
        path = f"/documents/{seeder.ready(client)}/ask"
        response = client.post(path, json={**QUESTION, "stream": stream})
        assert (response.status_code, response.json()["error"]["code"]) == (503, "gpu_busy")
        assert int(response.headers["retry-after"]) > 0
        assert "CUDA" not in response.text
        device = services.resident_documents.occupancy().device
        assert (device.documents, device.num_bytes) == (0, 0)
        assert client.post(path, json=QUESTION).status_code == 200


def test_a_document_that_can_never_fit_is_refused_at_once(
    services: Services, seeder: StorageSeeder
) -> None:
    small = replace(services.config, device_cache_bytes=1000)
    services = make_services(small, services.data_dir, services.storage, services.engine)
    with client_of(services, seeder) as client:
        response = client.post(f"/documents/{seeder.ready(client)}/ask", json=QUESTION)
        assert response.status_code == 422
        assert response.json()["error"]["code"] == "document_too_large_for_memory"
        assert "1000 B" in response.text


def test_running_out_while_answering_evicts_others_and_is_tried_once_more(
    services: Services, seeder: StorageSeeder
) -> None:
    def runs_out(*_: object, **__: object) -> Iterator[TextDelta]:
        num_tries.append(1)
        raise torch.OutOfMemoryError("CUDA out of memory.")
        yield TextDelta("never")

    num_tries: list[int] = []
    with client_of(with_script(services, runs_out), seeder) as client:
        seeder.ready(client, text=TEXT + " Another.")
        [other] = services.storage.documents.list(seeder.tenants["owner"], 1)
        services.document_loader.lease(other).close()
        path = f"/documents/{seeder.ready(client)}/ask"
        assert client.post(path, json=QUESTION).json()["error"]["code"] == "gpu_busy"
        assert len(num_tries) == 2
        device = services.resident_documents.occupancy().device
        assert (device.documents, device.evictions) == (1, {Reason.OUT_OF_MEMORY: 1})


def test_an_answer_that_has_begun_is_not_begun_again(
    services: Services, seeder: StorageSeeder
) -> None:
    def runs_out(*_: object, **__: object) -> Iterator[TextDelta]:
        yield TextDelta("The ga")
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with client_of(with_script(services, runs_out), seeder) as client:
        path = f"/documents/{seeder.ready(client)}/ask"
        pieces = events(client.post(path, json={**QUESTION, "stream": True}).text)
        assert [name for name, _ in pieces] == ["piece", "error"]
        assert pieces[-1][1]["error"]["code"] == "gpu_busy"  # type: ignore[index]


def test_a_failed_attempt_keeps_no_tensor_alive() -> None:
    held: list[weakref.ref[torch.Tensor]] = []

    def attempt(deeper: Callable[[], None]) -> None:
        tensor = torch.zeros(10)
        held.append(weakref.ref(tensor))
        deeper()

    def fails() -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    gc.disable()
    try:
        with pytest.raises(GpuBusy) as caught, out_of_memory_as_busy():
            attempt(fails)
        assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)
        assert held[0]() is None
    finally:
        gc.enable()
