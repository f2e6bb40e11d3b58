"""What is known about one document that is in memory, or on its way there, and what it becomes."""

from collections.abc import Hashable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """Anything that knows how many bytes of memory it holds."""

    @property
    def num_bytes(self) -> int:
        """Bytes held in memory."""
        ...


Cache = TypeVar("Cache", bound=Sized)
Loaded = TypeVar("Loaded", bound=Sized, covariant=True)
Resident = TypeVar("Resident", bound=Sized, contravariant=True)


class Tier(StrEnum):
    """Where a document is: the fastest place that holds it."""

    DEVICE = "device"
    HOST = "host"
    DISK = "disk"


class Reason(StrEnum):
    """Why a document left a tier.

    Attributes:
        ROOM: another document needed the room.
        OUT_OF_MEMORY: the device had no memory left, whatever the limit says.
        DROPPED: it was deleted or replaced, or its cache is no longer to be used.
        ASKED: somebody asked for its memory.
    """

    ROOM = "room"
    OUT_OF_MEMORY = "out_of_memory"
    DROPPED = "dropped"
    ASKED = "asked"


class Source(Protocol[Loaded]):
    """A document that can be brought into the device's memory."""

    @property
    def num_bytes(self) -> int:
        """Bytes of the device's memory that the loaded document will hold."""
        ...

    def load(self) -> Loaded:
        """Load it; the cache's tensors stay where they are from now on.

        Raises: GpuBusy if the device has no memory left; it may then be called once more.
        """
        ...


class Transfer(Protocol[Cache]):
    """Copies documents between the device and the host's memory."""

    def to_host(self, cache: Cache) -> Cache:
        """Copy a document of the device into the host's memory."""
        ...

    def to_device(self, cache: Cache) -> Cache:
        """Copy a document of the host's memory to the device. Raises: GpuBusy."""
        ...


class Listener(Protocol[Resident]):
    """Is told which documents are on the device, as whoever keeps their addresses has to know.

    Both calls come with the documents' lock held: they must be quick, and must not ask the
    documents anything.
    """

    def entered(self, key: Hashable, cache: Resident) -> None:
        """A document is on the device; its tensors stay at their addresses until it leaves."""
        ...

    def left(self, key: Hashable, cache: Resident) -> None:
        """A document is leaving: nobody uses it, and its memory is given back after this call."""
        ...


@dataclass(frozen=True)
class TierLoad:
    """What is in one tier now.

    Attributes:
        documents: how many documents.
        num_bytes: that they have, those on their way into the tier counted.
        limit_bytes: that they may have together.
        pinned_bytes: of them, what is never evicted.
        leased_bytes: of them, what questions are using now.
        evictions: how many documents have left it so far, by reason.
    """

    documents: int
    num_bytes: int
    limit_bytes: int
    pinned_bytes: int
    leased_bytes: int
    evictions: Mapping[Reason, int]


@dataclass(eq=False)
class Entry(Generic[Cache]):
    """A document in memory, or on its way there; only `ResidentDocuments` changes it.

    Attributes:
        key: of its cache; a document that is read again gets another one.
        document: whose cache it is.
        device, host: the cache in each tier.
        device_bytes, host_bytes: that are counted for it, from before it is there until it is gone.
        leases: questions that use it or wait for it.
        is_dropped: whether it is forgotten as soon as nobody uses it; `dropped_for` says why.
        moving: ends when the load or the eviction under way does; None if there is none.
    """

    key: Hashable
    document: Hashable
    device: Cache | None = None
    host: Cache | None = None
    device_bytes: int = 0
    host_bytes: int = 0
    leases: int = 0
    is_pinned: bool = False
    is_dropped: bool = False
    dropped_for: Reason = Reason.DROPPED
    moving: "Future[None] | None" = None

    @property
    def is_resident(self) -> bool:
        """Whether it is on the device, and not leaving it."""
        return self.device is not None and self.moving is None

    @property
    def can_be_evicted(self) -> bool:
        """Whether it may leave the device now."""
        return self.is_resident and self.leases == 0 and not self.is_pinned

    @property
    def is_idle(self) -> bool:
        """Whether nobody uses, moves or waits for it."""
        return self.leases == 0 and self.moving is None

    @property
    def tier(self) -> Tier:
        """The fastest tier that holds it whole."""
        if self.is_resident:
            return Tier.DEVICE
        return Tier.DISK if self.host is None else Tier.HOST
