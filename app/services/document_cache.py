"""An LRU cache of the documents that are loaded into memory, bounded by their bytes."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """Anything that knows how many bytes of memory it holds."""

    @property
    def num_bytes(self) -> int:
        """Bytes held in memory."""
        ...


Cache = TypeVar("Cache", bound=Sized)


@dataclass(frozen=True)
class LoadedDocument(Generic[Cache]):
    """A document that is in memory.

    Attributes:
        cache: the document's keys and values with all that questions need.
        hit: whether it was in memory before it was asked for.
        load_ms: milliseconds that the caller waited until it was loaded; 0 for a hit.
    """

    cache: Cache
    hit: bool
    load_ms: float


@dataclass(frozen=True)
class Occupancy:
    """What is in memory now.

    Attributes:
        documents: number of documents.
        num_bytes: bytes of all documents.
        limit_bytes: bytes that all documents may have.
        hits, misses: requests since the start that found their document in memory, or did not.
    """

    documents: int
    num_bytes: int
    limit_bytes: int
    hits: int
    misses: int


class LoadedDocuments(Generic[Cache]):
    """A thread-safe LRU cache of documents.

    If several threads ask for the same document at once, it is loaded once. A document that is
    larger than the whole limit is returned but not kept.

    Args:
        limit_bytes: bytes that all documents together may have.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._documents: OrderedDict[Hashable, Cache] = OrderedDict()  # least recently used first
        self._loading: dict[Hashable, Future[Cache]] = {}
        self._num_bytes = self._hits = self._misses = 0

    def get(self, key: Hashable, load: Callable[[], Cache]) -> LoadedDocument[Cache]:
        """Return a document, and load it if it is not in memory.

        Args:
            key: an artifact's id; a document that is read again gets an artifact with another id.
            load: loads the document; its error is raised for every thread that waits for it.
        """
        started_s = time.monotonic()
        with self._lock:
            if (cache := self._documents.get(key)) is not None:
                self._documents.move_to_end(key)
                self._hits += 1
                return LoadedDocument(cache, hit=True, load_ms=0.0)
            self._misses += 1
            is_first = key not in self._loading
            future = self._loading.setdefault(key, Future())
        cache = self._load(key, load, future) if is_first else future.result()
        return LoadedDocument(cache, hit=False, load_ms=1000 * (time.monotonic() - started_s))

    def drop(self, key: Hashable) -> None:
        """Remove a document; threads that are using it keep it in memory until they end."""
        with self._lock:
            self._loading.pop(key, None)  # a document that is being loaded will not be kept
            if (cache := self._documents.pop(key, None)) is not None:
                self._num_bytes -= cache.num_bytes

    def in_memory(self) -> tuple[Hashable, ...]:
        """Return the keys of all documents in memory."""
        with self._lock:
            return tuple(self._documents)

    def clear(self) -> None:
        """Remove all documents; threads that are using one keep it in memory until they end."""
        with self._lock:
            self._documents.clear()
            self._num_bytes = 0

    def occupancy(self) -> Occupancy:
        """Return what is in memory, in bytes and numbers of documents."""
        with self._lock:
            return Occupancy(
                documents=len(self._documents),
                num_bytes=self._num_bytes,
                limit_bytes=self._limit_bytes,
                hits=self._hits,
                misses=self._misses,
            )

    def _load(self, key: Hashable, load: Callable[[], Cache], future: Future[Cache]) -> Cache:
        try:
            cache = load()
        except BaseException as error:
            with self._lock:
                self._end_loading(key, future)
            future.set_exception(error)
            raise
        with self._lock:
            if self._end_loading(key, future):
                self._insert(key, cache)
        future.set_result(cache)
        return cache

    def _end_loading(self, key: Hashable, future: Future[Cache]) -> bool:
        """Forget that a document is being loaded; False if it was dropped meanwhile."""
        if self._loading.get(key) is not future:
            return False
        del self._loading[key]
        return True

    def _insert(self, key: Hashable, cache: Cache) -> None:
        """Keep a document, and remove the least recently used ones to make room for it."""
        if cache.num_bytes > self._limit_bytes:
            return
        while self._documents and self._num_bytes + cache.num_bytes > self._limit_bytes:
            _, oldest = self._documents.popitem(last=False)
            self._num_bytes -= oldest.num_bytes
        self._documents[key] = cache
        self._num_bytes += cache.num_bytes
