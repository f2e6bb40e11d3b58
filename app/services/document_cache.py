"""Documents kept in memory, ready to be asked: least recently used go first, counted in bytes."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """Anything that knows how many bytes it holds."""

    @property
    def num_bytes(self) -> int:
        """Bytes held in memory."""
        ...


Cache = TypeVar("Cache", bound=Sized)


@dataclass(frozen=True)
class Resident(Generic[Cache]):
    """A loaded document; `hit` if it was in memory already, else `load_ms` tells what it took."""

    cache: Cache
    hit: bool
    load_ms: float


@dataclass(frozen=True)
class Occupancy:
    """What is in memory now, and the hits and misses since the start."""

    documents: int
    num_bytes: int
    limit_bytes: int
    hits: int
    misses: int


class ResidentDocuments(Generic[Cache]):
    """A thread-safe LRU over loaded documents.

    A document that several threads ask for at once is loaded once. One larger than the whole limit
    is served and not kept.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Cache] = OrderedDict()
        self._loading: dict[Hashable, Future[Cache]] = {}
        self._num_bytes = self._hits = self._misses = 0

    def get(self, key: Hashable, load: Callable[[], Cache]) -> Resident[Cache]:
        """Return the document under `key`, loading it if it is not in memory.

        Args:
            key: an artifact's id; a rebuilt document has another one.
            load: reads the document; what it raises reaches every waiting caller and is not kept.
        """
        started_s = time.monotonic()
        with self._lock:
            if (cache := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                self._hits += 1
                return Resident(cache, True, 0.0)
            self._misses += 1
            pending, mine = self._pending(key)
        cache = self._load(key, load, pending) if mine else pending.result()
        return Resident(cache, False, 1000 * (time.monotonic() - started_s))

    def drop(self, key: Hashable) -> None:
        """Forget a document; threads that still answer from it keep it alive until they end."""
        with self._lock:
            self._loading.pop(key, None)  # what is being loaded will not be kept
            if (cache := self._kept.pop(key, None)) is not None:
                self._num_bytes -= cache.num_bytes

    def clear(self) -> None:
        """Forget every document that is loaded."""
        with self._lock:
            self._kept.clear()
            self._num_bytes = 0

    def occupancy(self) -> Occupancy:
        """Count what is in memory."""
        with self._lock:
            return Occupancy(
                len(self._kept), self._num_bytes, self._limit_bytes, self._hits, self._misses
            )

    def _pending(self, key: Hashable) -> tuple[Future[Cache], bool]:
        mine = key not in self._loading
        return self._loading.setdefault(key, Future()), mine

    def _load(self, key: Hashable, load: Callable[[], Cache], pending: Future[Cache]) -> Cache:
        try:
            cache = load()
        except BaseException as error:
            with self._lock:
                self._forget(key, pending)
            pending.set_exception(error)
            raise
        with self._lock:
            if self._forget(key, pending):
                self._keep(key, cache)
        pending.set_result(cache)
        return cache

    def _forget(self, key: Hashable, pending: Future[Cache]) -> bool:
        """End a load; False if the document was dropped meanwhile."""
        if self._loading.get(key) is not pending:
            return False
        del self._loading[key]
        return True

    def _keep(self, key: Hashable, cache: Cache) -> None:
        if cache.num_bytes > self._limit_bytes:
            return
        while self._kept and self._num_bytes + cache.num_bytes > self._limit_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._num_bytes -= oldest.num_bytes
        self._kept[key] = cache
        self._num_bytes += cache.num_bytes
