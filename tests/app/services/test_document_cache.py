"""Documents in memory are bounded in bytes, loaded once, and removed when they are deleted."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from app.services.document_cache import LoadedDocuments
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
    documents = LoadedDocuments[Cache](100)
    first = documents.get("a", loading(10))
    second = documents.get("a", never)
    assert (first.hit, second.hit) == (False, True)
    assert second.cache is first.cache
    assert second.load_ms == 0
    assert (documents.occupancy().hits, documents.occupancy().misses) == (1, 1)


def test_the_least_recently_asked_document_goes_first() -> None:
    documents = LoadedDocuments[Cache](100)
    for key in ("a", "b"):
        documents.get(key, loading(40))
    documents.get("a", never)
    documents.get("c", loading(40))
    documents.get("a", never)
    documents.get("c", never)
    assert not documents.get("b", loading(40)).hit


def test_memory_stays_within_the_limit() -> None:
    documents = LoadedDocuments[Cache](100)
    for number in range(20):
        documents.get(number, loading(7 + number))
        assert documents.occupancy().num_bytes <= 100
    assert documents.occupancy().documents > 1


def test_a_document_larger_than_the_limit_is_served_and_pushes_nobody_out() -> None:
    documents = LoadedDocuments[Cache](100)
    documents.get("small", loading(10))
    assert documents.get("large", loading(1000)).cache.num_bytes == 1000
    documents.get("small", never)
    assert documents.occupancy().num_bytes == 10


def test_many_questions_at_once_load_a_document_once() -> None:
    documents, calls, gate = LoadedDocuments[Cache](100), [], threading.Event()

    def load() -> Cache:
        calls.append(1)
        gate.wait(10)
        return Cache(10)

    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(documents.get, "a", load) for _ in range(8)]
        gate.set()
        caches = {id(future.result(10).cache) for future in waiting}
    assert len(caches) == 1
    assert len(calls) == 1


def test_a_failed_load_reaches_all_who_wait_and_is_tried_again() -> None:
    documents, gate = LoadedDocuments[Cache](100), threading.Event()

    def fail() -> Cache:
        gate.wait(10)
        raise CorruptArtifact("bits flipped")

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(documents.get, "a", fail) for _ in range(4)]
        gate.set()
        for future in waiting:
            with pytest.raises(CorruptArtifact):
                future.result(10)
    assert documents.get("a", loading(10)).cache.num_bytes == 10


def test_a_dropped_document_is_loaded_anew() -> None:
    documents = LoadedDocuments[Cache](100)
    documents.get("a", loading(10))
    documents.drop("a")
    documents.drop("unknown")
    assert documents.occupancy().num_bytes == 0
    assert not documents.get("a", loading(10)).hit


def test_a_document_deleted_while_it_loads_is_not_kept() -> None:
    documents = LoadedDocuments[Cache](100)

    def load() -> Cache:
        documents.drop("a")
        return Cache(10)

    documents.get("a", load)
    assert documents.occupancy().documents == 0
