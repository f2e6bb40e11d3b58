"""How often an engine took a slower way than it was asked to, by the reason, for operators.

Each way back is logged where it is taken; here it is counted, so that a figure shows it too.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum


class Part(StrEnum):
    """What was done without.

    Attributes:
        KERNELS: Triton kernels; plain torch answered.
        GRAPH: a CUDA graph; each operation was launched by itself.
        BATCH: the graph of many documents; an answer decoded with its document's own, or none.
        PREFILL: the graphs of a question's prefill; its operations were launched one by one.
    """

    KERNELS = "kernels"
    GRAPH = "graph"
    BATCH = "batch"
    PREFILL = "prefill"


class Cause(StrEnum):
    """Why.

    Attributes:
        FAILED: it was tried, and raised an error.
        UNSUPPORTED: the model or the document is not of a kind that it takes.
        IN_USE: another answer had it.
        NO_ROOM: there was no memory, no page or no place left for it.
    """

    FAILED = "failed"
    UNSUPPORTED = "unsupported"
    IN_USE = "in_use"
    NO_ROOM = "no_room"


Fallback = tuple[Part, Cause]
POSSIBLE: tuple[Fallback, ...] = (
    (Part.KERNELS, Cause.FAILED),
    (Part.KERNELS, Cause.UNSUPPORTED),
    (Part.GRAPH, Cause.FAILED),
    (Part.GRAPH, Cause.IN_USE),
    (Part.BATCH, Cause.FAILED),
    (Part.BATCH, Cause.UNSUPPORTED),
    (Part.BATCH, Cause.NO_ROOM),
    (Part.PREFILL, Cause.FAILED),
    (Part.PREFILL, Cause.UNSUPPORTED),
    (Part.PREFILL, Cause.NO_ROOM),
)


class Fallbacks:
    """Counts of one engine; any thread may count and look."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[Fallback] = Counter(dict.fromkeys(POSSIBLE, 0))

    def count(self, part: Part, cause: Cause) -> None:
        """Count that a part was done without once."""
        with self._lock:
            self._counts[part, cause] += 1

    def counts(self) -> Mapping[Fallback, int]:
        """Return the counts since the engine was made; those that can come are there as zeros."""
        with self._lock:
            return dict(self._counts)
