"""The documents in memory, in two tiers: the device's memory, and the host's behind it.

Questions are answered from the device alone. A document that has to make room goes to the host's
memory if there is room, from where it comes back faster than from the disk; it may be in both.
"""

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Self

from common.errors import DocumentTooLargeForMemory, GpuBusy, MemoryFull
from common.format import format_bytes
from engine.residents.entry import (
    Cache,
    Entry,
    Listener,
    Reason,
    Source,
    Tier,
    TierLoad,
    Transfer,
)

ROOM_TIMEOUT_S = 60.0
log = logging.getLogger("lectern.memory")


class Lease(Generic[Cache]):
    """The use of a document on the device; a context manager that ends it.

    Until then the document stays there, and its tensors where they are.

    Attributes:
        cache: the document.
        hit: whether it was on the device before it was asked for.
        tier: where it was found.
        load_ms: milliseconds that the caller waited for it; 0 for a hit.
        key: by which the cache is known; None if it is not told.
    """

    def __init__(
        self,
        cache: Cache,
        tier: Tier,
        load_ms: float,
        close: Callable[[], None] = lambda: None,
        key: Hashable = None,
    ) -> None:
        self.cache = cache
        self.key = key
        self.hit = tier is Tier.DEVICE
        self.tier = tier
        self.load_ms = load_ms
        self._close: Callable[[], None] | None = close
        self._lock = threading.Lock()

    def close(self) -> None:
        """End the use; further calls do nothing."""
        with self._lock:
            close, self._close = self._close, None
        if close is not None:
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Room:
    """Bytes of the device's memory that are kept free for a document that is being made."""

    def __init__(self) -> None:
        self.num_bytes = 0


@dataclass(frozen=True)
class Occupancy:
    """What is in memory now.

    Attributes:
        device, host: the tiers.
        hits, misses: leases since the start that found their document on the device, or did not.
        loads: by the tier that documents came from, how many; from the device: made there.
    """

    device: TierLoad
    host: TierLoad
    hits: int
    misses: int
    loads: Mapping[Tier, int]


@dataclass(frozen=True)
class Placement:
    """What is in memory of one document.

    Attributes:
        device_bytes, host_bytes: that are counted for it in each tier.
        leases: questions that use it or wait for it.
    """

    device_bytes: int
    host_bytes: int
    leases: int


@dataclass(frozen=True)
class _FromHost(Generic[Cache]):
    """A document in the host's memory as a source."""

    cache: Cache
    transfer: Transfer[Cache]

    @property
    def num_bytes(self) -> int:
        return self.cache.num_bytes

    def load(self) -> Cache:
        return self.transfer.to_device(self.cache)


@dataclass(frozen=True)
class _OnDevice(Generic[Cache]):
    """A document that is on the device already, without being counted."""

    cache: Cache

    @property
    def num_bytes(self) -> int:
        return self.cache.num_bytes

    def load(self) -> Cache:
        return self.cache


@dataclass(frozen=True)
class _Loaded(Generic[Cache]):
    """A document that was loaded, and the tier that it came from."""

    cache: Cache
    tier: Tier


def _tier_of(source: Source[Cache]) -> Tier:
    if isinstance(source, _OnDevice):
        return Tier.DEVICE
    return Tier.HOST if isinstance(source, _FromHost) else Tier.DISK


class ResidentDocuments(Generic[Cache]):
    """A thread-safe cache of documents in two tiers, bounded by their bytes.

    In each tier the document that was used the longest ago goes first. One that is leased or
    pinned stays. If several threads ask for the same document at once, it is loaded once.

    Args:
        device_bytes, host_bytes: what documents may have in each tier; 0 of the host for none.
        transfer: copies documents between the tiers.
        room_timeout_s: how long a load waits while all room is in use.
    """

    def __init__(
        self,
        device_bytes: int,
        host_bytes: int,
        transfer: Transfer[Cache],
        room_timeout_s: float = ROOM_TIMEOUT_S,
    ) -> None:
        self._limits = {Tier.DEVICE: device_bytes, Tier.HOST: host_bytes}
        self._transfer = transfer
        self._room_timeout_s = room_timeout_s
        self._changed = threading.Condition()  # its lock is that of everything below
        self._entries: OrderedDict[Hashable, Entry[Cache]] = OrderedDict()  # used longest ago first
        self._used = {Tier.DEVICE: 0, Tier.HOST: 0}
        self._evictions: dict[Tier, Counter[Reason]] = {
            Tier.DEVICE: Counter(),
            Tier.HOST: Counter(),
        }
        self._loads: Counter[Tier] = Counter()
        self._hits = self._misses = 0
        self._listeners: list[Listener[Cache]] = []

    # -- using documents -----------------------------------------------------------------------

    def lease(
        self,
        key: Hashable,
        open_source: Callable[[], Source[Cache]],
        *,
        document: Hashable = None,
        pinned: bool = False,
    ) -> Lease[Cache]:
        """Use a document; load it first if it is not on the device.

        Args:
            key: of its cache, an artifact's id.
            open_source: tells where to load it from, if it is in no tier; its error and that of
                loading are raised for every thread that waits for the document.
            document: whose cache it is.
            pinned: whether it is never to be evicted.
        Raises: DocumentTooLargeForMemory if it can never fit; MemoryFull if all room is taken by
            what cannot be evicted; GpuBusy if the device has no memory, whatever the limits say.
        """
        started_s = time.monotonic()
        with self._changed:
            entry = self._enter(key, document)
            entry.is_pinned = pinned
            tier = entry.tier
            if tier is Tier.DEVICE:
                self._hits += 1
            else:
                self._misses += 1
        cache = self._bring(entry, open_source)
        load_ms = 0.0 if tier is Tier.DEVICE else 1000 * (time.monotonic() - started_s)
        return Lease(cache, tier, load_ms, lambda: self._release(entry), key)

    def lease_resident(self, key: Hashable, *, pinned: bool | None = None) -> Lease[Cache] | None:
        """Use a document if it is on the device now; None if it is not.

        Args:
            pinned: as for `lease`; None for no change.
        """
        with self._changed:
            entry = self._entries.get(key)
            if entry is None or not entry.is_resident:
                return None
            if pinned is not None:
                entry.is_pinned = pinned
            self._enter(key, entry.document)
            self._hits += 1
            cache = entry.device
        assert cache is not None
        return Lease(cache, Tier.DEVICE, 0.0, lambda: self._release(entry), key)

    def put(
        self,
        key: Hashable,
        cache: Cache,
        *,
        document: Hashable = None,
        room: Room | None = None,
        pinned: bool = False,
    ) -> Lease[Cache]:
        """Take over a document that was made on the device, without loading it.

        It stays until the lease is closed, so that it can be asked about before it is stored; from
        then on it is a document like any other. Older caches of the same document are dropped. To
        give it up, `drop` it.

        Args:
            key: of its cache: the id that its artifact will have.
            document: whose cache it is.
            room: that was kept for it; it is used up.
        Raises: DocumentTooLargeForMemory, MemoryFull; then it is not taken over.
        """
        self.drop(key)
        with self._changed:
            entry = self._enter(key, document)
            entry.is_pinned = pinned
        self._bring(entry, lambda: _OnDevice(cache), room)
        if document is not None:
            self.drop_document(document, but=key)
        assert entry.device is not None
        return Lease(entry.device, Tier.DEVICE, 0.0, lambda: self._release(entry), key)

    @contextmanager
    def room(self, num_bytes: int) -> Iterator[Room]:
        """Keep room on the device for a document that is being made there, while the block runs.

        Others are evicted for it. Give it to `put` within the block.

        Raises: DocumentTooLargeForMemory, MemoryFull.
        """
        room = Room()
        holder: Entry[Cache] = Entry(object(), None, moving=Future())
        self._reserve(holder, num_bytes)
        with self._changed:
            room.num_bytes, holder.device_bytes = holder.device_bytes, 0
        try:
            yield room
        finally:
            with self._changed:
                self._used[Tier.DEVICE] -= room.num_bytes
                room.num_bytes = 0
                self._changed.notify_all()

    # -- what stays, and what goes -------------------------------------------------------------

    def set_pinned(self, document: Hashable, is_pinned: bool) -> None:
        """Let a document's caches never be evicted, or let them be evicted again."""
        with self._changed:
            for entry in self._entries.values():
                if entry.document == document:
                    entry.is_pinned = is_pinned
            self._changed.notify_all()

    def drop(self, key: Hashable, reason: Reason = Reason.DROPPED) -> None:
        """Forget a cache in all tiers; whoever uses it keeps it until the lease ends."""
        with self._changed:
            entry = self._entries.pop(key, None)
            if entry is not None:
                entry.is_dropped, entry.dropped_for = True, reason
                self._free_if_idle(entry)

    def drop_document(
        self, document: Hashable, but: Hashable = None, reason: Reason = Reason.DROPPED
    ) -> None:
        """Forget all caches of a document, except one key's."""
        with self._changed:
            keys = [key for key, entry in self._entries.items() if entry.document == document]
        for key in keys:
            if key != but:
                self.drop(key, reason)

    def clear(self) -> None:
        """Forget all caches, pinned ones too; those in use go when their leases end."""
        with self._changed:
            keys = list(self._entries)
        for key in keys:
            self.drop(key)

    def evict(self, num_bytes: int, reason: Reason = Reason.OUT_OF_MEMORY) -> int:
        """Evict the documents used the longest ago from the device, until so many bytes are free.

        Returns: how many bytes became free; less if the others are in use or pinned.
        """
        with self._changed:
            victims = self._choose_victims(num_bytes)
        freed = sum(entry.device_bytes for entry in victims)
        self._evict(victims, reason)
        return freed

    def listen(self, listener: Listener[Cache]) -> None:
        """Tell a listener of all documents on the device, and of all changes from now on."""
        with self._changed:
            self._listeners.append(listener)
            for entry in self._entries.values():
                if entry.is_resident and entry.device is not None:
                    listener.entered(entry.key, entry.device)

    # -- what is there -------------------------------------------------------------------------

    def limit_bytes(self, tier: Tier) -> int:
        """Return how many bytes documents may have in a tier."""
        return self._limits[tier]

    def room_bytes(self, document: Hashable = None) -> int:
        """Return the bytes of the device that other pinned documents leave for a document."""
        with self._changed:
            return self._limits[Tier.DEVICE] - sum(
                entry.device_bytes
                for entry in self._entries.values()
                if entry.is_pinned and entry.document != document
            )

    def tiers(self) -> Mapping[Hashable, Tier]:
        """Return by document the fastest tier that holds it; those on the disk are left out."""
        with self._changed:
            found: dict[Hashable, Tier] = {}
            for entry in self._entries.values():
                if entry.tier is Tier.DEVICE or (
                    entry.tier is Tier.HOST and entry.document not in found
                ):
                    found[entry.document] = entry.tier
            return found

    def placements(self) -> Mapping[Hashable, Placement]:
        """Return by document what is in memory of it, and what uses it."""
        with self._changed:
            found: dict[Hashable, Placement] = {}
            for entry in self._entries.values():
                other = found.get(entry.document, Placement(0, 0, 0))
                found[entry.document] = Placement(
                    other.device_bytes + entry.device_bytes,
                    other.host_bytes + entry.host_bytes,
                    other.leases + entry.leases,
                )
            return found

    def look_at(self, document: Hashable) -> Cache | None:
        """Return a document's cache if it is on the device; it may leave at any time.

        It is for looking at only: it counts as no use, and nothing keeps the document there.
        """
        with self._changed:
            for entry in self._entries.values():
                if entry.document == document and entry.is_resident:
                    return entry.device
        return None

    def occupancy(self) -> Occupancy:
        """Return what is in memory, in bytes and numbers of documents."""
        with self._changed:
            return Occupancy(
                device=self._tier_load(Tier.DEVICE),
                host=self._tier_load(Tier.HOST),
                hits=self._hits,
                misses=self._misses,
                loads=dict(self._loads),
            )

    def _tier_load(self, tier: Tier) -> TierLoad:
        entries = list(self._entries.values())
        if tier is Tier.DEVICE:
            held = [(entry, entry.device_bytes) for entry in entries if entry.is_resident]
        else:
            held = [(entry, entry.host_bytes) for entry in entries if entry.host is not None]
        return TierLoad(
            documents=len(held),
            num_bytes=self._used[tier],
            limit_bytes=self._limits[tier],
            pinned_bytes=sum(num_bytes for entry, num_bytes in held if entry.is_pinned),
            leased_bytes=sum(num_bytes for entry, num_bytes in held if entry.leases),
            evictions=dict(self._evictions[tier]),
        )

    # -- entries, with the lock held -----------------------------------------------------------

    def _enter(self, key: Hashable, document: Hashable) -> Entry[Cache]:
        """Return a document's entry, used now and by one more."""
        entry = self._entries.setdefault(key, Entry(key, document))
        self._entries.move_to_end(key)
        entry.leases += 1
        return entry

    def _choose_victims(self, num_bytes: int) -> Sequence[Entry[Cache]]:
        """Choose documents to evict from the device and announce it; they are moving from now on.

        Returns: those used the longest ago whose bytes suffice, or all that can be evicted.
        """
        victims: list[Entry[Cache]] = []
        for entry in self._entries.values():
            if num_bytes <= 0:
                break
            if entry.can_be_evicted:
                victims.append(entry)
                num_bytes -= entry.device_bytes
        for entry in victims:
            self._tell_left(entry)
            entry.moving = Future()
        return victims

    def _evictable_bytes(self) -> int:
        return sum(entry.device_bytes for entry in self._entries.values() if entry.can_be_evicted)

    def _free_if_idle(self, entry: Entry[Cache]) -> None:
        """Give back what a document holds that was dropped and that nobody uses any more."""
        if not entry.is_idle:
            return
        if entry.is_dropped:
            if entry.device is not None:
                self._tell_left(entry)
                self._evictions[Tier.DEVICE][entry.dropped_for] += 1
            entry.device = None
            self._used[Tier.DEVICE] -= entry.device_bytes
            entry.device_bytes = 0
            self._free_host(entry)
            self._changed.notify_all()
        elif entry.device is None and entry.host is None:
            self._entries.pop(entry.key, None)

    def _free_host(self, entry: Entry[Cache]) -> None:
        entry.host = None
        self._used[Tier.HOST] -= entry.host_bytes
        entry.host_bytes = 0

    def _tell_entered(self, entry: Entry[Cache], cache: Cache) -> None:
        for listener in self._listeners:
            listener.entered(entry.key, cache)

    def _tell_left(self, entry: Entry[Cache]) -> None:
        assert entry.device is not None
        for listener in self._listeners:
            listener.left(entry.key, entry.device)

    def _release(self, entry: Entry[Cache]) -> None:
        with self._changed:
            entry.leases -= 1
            self._free_if_idle(entry)
            self._changed.notify_all()

    # -- loading -------------------------------------------------------------------------------

    def _bring(
        self,
        entry: Entry[Cache],
        open_source: Callable[[], Source[Cache]],
        room: Room | None = None,
    ) -> Cache:
        """Wait until a document that is leased is on the device, loading it if nobody does."""
        try:
            while True:
                with self._changed:
                    if entry.is_resident and entry.device is not None:
                        return entry.device
                    waiting = entry.moving
                    if waiting is None:
                        entry.moving = Future()
                if waiting is None:
                    self._load(entry, open_source, room)
                else:
                    waiting.result()  # raises what the load raised that is waited for
        except BaseException:
            self._release(entry)
            raise

    def _load(
        self, entry: Entry[Cache], open_source: Callable[[], Source[Cache]], room: Room | None
    ) -> None:
        """Load a document whose move was announced, and tell those who wait for it."""
        try:
            loaded = self._load_counted(entry, open_source, room)
            with self._changed:
                self._tell_entered(entry, loaded.cache)
                self._used[Tier.DEVICE] += loaded.cache.num_bytes - entry.device_bytes
                entry.device, entry.device_bytes = loaded.cache, loaded.cache.num_bytes
                self._loads[loaded.tier] += 1
                self._end_move(entry).set_result(None)
        except BaseException as error:
            with self._changed:
                self._used[Tier.DEVICE] -= entry.device_bytes
                entry.device_bytes = 0
                self._end_move(entry).set_exception(error)
            raise
        artifact_id, num_bytes = entry.key, loaded.cache.num_bytes
        log.info(
            "document resident artifact_id=%s from=%s num_bytes=%d",
            artifact_id,
            loaded.tier,
            num_bytes,
        )

    def _load_counted(
        self, entry: Entry[Cache], open_source: Callable[[], Source[Cache]], room: Room | None
    ) -> _Loaded[Cache]:
        """Load a document and count its bytes. Nothing outlives this call but the result."""
        source: Source[Cache] | None = None
        try:
            host = entry.host
            source = open_source() if host is None else _FromHost(host, self._transfer)
            host = None
            self._reserve(entry, source.num_bytes, room)
            return _Loaded(self._load_with_retry(entry, source), _tier_of(source))
        finally:
            source = host = None  # an error's frames live as long as the error

    def _end_move(self, entry: Entry[Cache]) -> "Future[None]":
        """Let nothing move a document any more; returns what others wait for."""
        with self._changed:
            moving, entry.moving = entry.moving, None
            self._changed.notify_all()
        assert moving is not None
        return moving

    def _load_with_retry(self, entry: Entry[Cache], source: Source[Cache]) -> Cache:
        """Load; if the device has no memory, evict others and try once more."""
        try:
            return source.load()
        except GpuBusy:
            artifact_id = entry.key
            log.warning("no memory left: others make room artifact_id=%s", artifact_id)
        self.evict(entry.device_bytes)
        return source.load()

    def _reserve(self, entry: Entry[Cache], num_bytes: int, room: Room | None = None) -> None:
        """Count a document's bytes on the device before it is there, and evict others for them.

        Raises: DocumentTooLargeForMemory, MemoryFull.
        """
        limit = self._limits[Tier.DEVICE]
        if num_bytes > limit:
            raise DocumentTooLargeForMemory(
                f"This document takes {format_bytes(num_bytes)} of memory, and all documents "
                f"together may have {format_bytes(limit)}."
            )
        deadline_s = time.monotonic() + self._room_timeout_s
        while True:
            with self._changed:
                kept = 0 if room is None else room.num_bytes
                missing = self._used[Tier.DEVICE] - kept + num_bytes - limit
                if missing <= 0:
                    self._used[Tier.DEVICE] += num_bytes - kept
                    entry.device_bytes = num_bytes
                    if room is not None:
                        room.num_bytes = 0
                    return
                if self._evictable_bytes() < missing:
                    self._wait_for_room(entry, num_bytes, deadline_s)
                    continue
                victims = self._choose_victims(missing)
            self._evict(victims, Reason.ROOM)

    def _wait_for_room(self, entry: Entry[Cache], num_bytes: int, deadline_s: float) -> None:
        """Wait until something changes. Raises: MemoryFull after the deadline, or if pins fill."""
        load = self._tier_load(Tier.DEVICE)
        pinned = load.pinned_bytes - (entry.device_bytes if entry.is_pinned else 0)
        remaining_s = deadline_s - time.monotonic()
        if num_bytes > load.limit_bytes - pinned or remaining_s <= 0:
            others = load.num_bytes - load.pinned_bytes
            raise MemoryFull(
                f"This document takes {format_bytes(num_bytes)}, and the memory for documents is "
                f"full: of {format_bytes(load.limit_bytes)}, pinned documents have "
                f"{format_bytes(load.pinned_bytes)}, and those in use {format_bytes(others)}."
            )
        self._changed.wait(remaining_s)

    # -- evicting ------------------------------------------------------------------------------

    def _evict(self, victims: Iterable[Entry[Cache]], reason: Reason) -> None:
        """Take chosen documents off the device, into the host's memory if there is room."""
        for entry in victims:
            host = self._copy_to_host(entry)
            with self._changed:
                num_bytes = entry.device_bytes
                entry.host = host or entry.host
                self._used[Tier.DEVICE] -= num_bytes
                entry.device, entry.device_bytes, host = None, 0, None
                self._evictions[Tier.DEVICE][reason] += 1
                moving, tier = self._end_move(entry), entry.tier
                self._free_if_idle(entry)
            moving.set_result(None)
            artifact_id = entry.key
            log.info(
                "document evicted artifact_id=%s reason=%s num_bytes=%d now=%s",
                artifact_id,
                reason,
                num_bytes,
                tier,
            )

    def _copy_to_host(self, entry: Entry[Cache]) -> Cache | None:
        """Copy a document that leaves the device; None if there is no room, or a copy already."""
        with self._changed:
            cache = entry.device
            assert cache is not None
            if entry.host is not None or not self._take_host_room(entry, cache.num_bytes):
                return None
        try:
            return self._transfer.to_host(cache)
        except Exception:  # whatever an allocator raises: it is still on the disk
            artifact_id = entry.key
            log.warning(
                "document not kept in host memory artifact_id=%s", artifact_id, exc_info=True
            )
            with self._changed:
                self._free_host(entry)
            return None

    def _take_host_room(self, entry: Entry[Cache], num_bytes: int) -> bool:
        """Count a document's bytes in the host's memory, and evict others from there for them."""
        limit = self._limits[Tier.HOST]
        if num_bytes > limit or entry.is_dropped:
            return False
        while self._used[Tier.HOST] + num_bytes > limit:
            victim = self._choose_host_victim()
            if victim is None:
                return False
            artifact_id, freed_bytes = victim.key, victim.host_bytes
            self._free_host(victim)
            self._evictions[Tier.HOST][Reason.ROOM] += 1
            self._free_if_idle(victim)
            log.info(
                "document evicted from host memory artifact_id=%s num_bytes=%d",
                artifact_id,
                freed_bytes,
            )
        self._used[Tier.HOST] += num_bytes
        entry.host_bytes = num_bytes
        return True

    def _choose_host_victim(self) -> Entry[Cache] | None:
        """The document to take out of the host's memory: rather one that is on the device, too."""
        held = [
            entry
            for entry in self._entries.values()
            if entry.host is not None and entry.moving is None
        ]
        twice = [entry for entry in held if entry.device is not None]
        return next(iter([*twice, *(entry for entry in held if not entry.is_pinned)]), None)
