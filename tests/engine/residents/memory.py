"""Two memories that count what is really in them, and documents of which each holds a part."""

import threading
import weakref
from dataclasses import dataclass, field

from common.errors import GpuBusy


@dataclass
class Memory:
    """A memory of so many bytes; what is taken is given back when a document dies.

    Attributes:
        patience_s: how long `take` waits for bytes. Between the end of a lease and the death of
            its document another thread of a test may still have a few lines to run.
    """

    limit_bytes: int
    patience_s: float = 0.0
    num_bytes: int = 0
    most_bytes: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, num_bytes: int) -> None:
        """Take bytes. Raises: GpuBusy if there are not so many."""
        with self.changed:
            fits = self.changed.wait_for(lambda: self._fits(num_bytes), self.patience_s)
            if not fits:
                raise GpuBusy("The memory is full.")
            self.num_bytes += num_bytes
            self.most_bytes = max(self.most_bytes, self.num_bytes)

    def give_back(self, num_bytes: int) -> None:
        """Give bytes back."""
        with self.changed:
            self.num_bytes -= num_bytes
            self.changed.notify_all()

    def _fits(self, num_bytes: int) -> bool:
        return self.num_bytes + num_bytes <= self.limit_bytes


class Document:
    """A document in a memory, for as long as somebody refers to it."""

    def __init__(self, name: object, num_bytes: int, memory: Memory) -> None:
        memory.take(num_bytes)
        self.name = name
        self.num_bytes = num_bytes
        weakref.finalize(self, memory.give_back, num_bytes)


@dataclass
class Machine:
    """A device and its host, which copies documents between them; a `Transfer`."""

    device: Memory
    host: Memory

    def to_host(self, cache: Document) -> Document:
        """See `Transfer.to_host`."""
        return Document(cache.name, cache.num_bytes, self.host)

    def to_device(self, cache: Document) -> Document:
        """See `Transfer.to_device`."""
        return Document(cache.name, cache.num_bytes, self.device)
