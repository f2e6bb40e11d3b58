"""Documents in memory: bounded in bytes, loaded once, forgotten when deleted."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from app.services.document_cache import ResidentDocuments
from common.errors import CorruptArtifact


@dataclass(frozen=True)
class Cache:
    """A document of a given size."""

    num_bytes: int


def loading(num_bytes: int) -> Callable[[], Cache]:
    return lambda: Cache(num_bytes)


def never() -> Cache:
    raise AssertionError("was in memory already")


def test_a_second_question_finds_the_document_in_memory() -> None:
    resident = ResidentDocuments[Cache](100)
    first = resident.get("a", loading(10))
    second = resident.get("a", never)
    assert (first.hit, second.hit) == (False, True)
    assert second.cache is first.cache
    assert second.load_ms == 0
    assert (resident.occupancy().hits, resident.occupancy().misses) == (1, 1)


def test_the_least_recently_asked_document_goes_first() -> None:
    resident = ResidentDocuments[Cache](100)
    for key in ("a", "b"):
        resident.get(key, loading(40))
    resident.get("a", never)
    resident.get("c", loading(40))
    resident.get("a", never)
    resident.get("c", never)
    assert not resident.get("b", loading(40)).hit


def test_memory_stays_within_the_limit() -> None:
    resident = ResidentDocuments[Cache](100)
    for number in range(20):
        resident.get(number, loading(7 + number))
        assert resident.occupancy().num_bytes <= 100
    assert resident.occupancy().documents > 1


def test_a_document_larger_than_the_limit_is_served_and_pushes_nobody_out() -> None:
    resident = ResidentDocuments[Cache](100)
    resident.get("small", loading(10))
    assert resident.get("large", loading(1000)).cache.num_bytes == 1000
    resident.get("small", never)
    assert resident.occupancy().num_bytes == 10


def test_many_questions_at_once_load_a_document_once() -> None:
    resident, calls, gate = ResidentDocuments[Cache](100), [], threading.Event()

    def load() -> Cache:
        calls.append(1)
        gate.wait(10)
        return Cache(10)

    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(resident.get, "a", load) for _ in range(8)]
        gate.set()
        caches = {id(future.result(10).cache) for future in waiting}
    assert len(caches) == 1
    assert len(calls) == 1


def test_a_failed_load_reaches_all_who_wait_and_is_tried_again() -> None:
    resident, gate = ResidentDocuments[Cache](100), threading.Event()

    def fail() -> Cache:
        gate.wait(10)
        raise CorruptArtifact("bits flipped")

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(resident.get, "a", fail) for _ in range(4)]
        gate.set()
        for future in waiting:
            with pytest.raises(CorruptArtifact):
                future.result(10)
    assert resident.get("a", loading(10)).cache.num_bytes == 10


def test_a_dropped_document_is_loaded_anew() -> None:
    resident = ResidentDocuments[Cache](100)
    resident.get("a", loading(10))
    resident.drop("a")
    resident.drop("unknown")
    assert resident.occupancy().num_bytes == 0
    assert not resident.get("a", loading(10)).hit


def test_a_document_deleted_while_it_loads_is_not_kept() -> None:
    resident = ResidentDocuments[Cache](100)

    def load() -> Cache:
        resident.drop("a")
        return Cache(10)

    resident.get("a", load)
    assert resident.occupancy().documents == 0
