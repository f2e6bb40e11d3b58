"""Counting what a question reads of a document's cache."""

from dataclasses import dataclass, field

from torch import Tensor

from engine.attend.lookup import ListedTokens, Selection
from engine.document.cache import LayerCache


@dataclass
class ReadMeter:
    """Bytes read by the forward passes of one question, beside what full attention would read.

    The first pass is the question's prefill, each later one a decoding step. What was counted on a
    GPU stays there until somebody asks for it.
    """

    read: list[int | Tensor] = field(default_factory=list)
    full: list[int] = field(default_factory=list)

    def begin_pass(self) -> None:
        """Open a new forward pass."""
        self.read.append(0)
        self.full.append(0)

    def add_pass(self, read: int | Tensor, full: int) -> None:
        """Add a whole forward pass, in bytes."""
        self.read.append(read)
        self.full.append(full)

    def count(self, layer: LayerCache, selection: Selection | ListedTokens | None) -> None:
        """Add one layer's reads to the open pass; `selection` None means everything kept."""
        vector = layer.keys.shape[2] * layer.keys.element_size()
        clustered: int | Tensor
        if selection is None:
            clustered = 2 * layer.num_retrieval * (layer.num_tokens - layer.num_anchors)
        else:
            clustered = 2 * selection.num_tokens + selection.centroids_read
        self.read[-1] += (layer.constant_vectors + clustered) * vector
        self.full[-1] += layer.full_vectors * vector

    @property
    def num_passes(self) -> int:
        """Forward passes begun."""
        return len(self.read)

    @property
    def bytes_read(self) -> int:
        """Bytes of document cache read in all passes."""
        return self._settled()

    def share(self, start: int = 0, end: int | None = None) -> float:
        """Bytes read over full attention's bytes, in passes start to end; 0.0 for none."""
        full = sum(self.full[start:end])
        return self._settled(start, end) / full if full else 0.0

    def _settled(self, start: int = 0, end: int | None = None) -> int:
        """Bytes read in some passes, after waiting, once, for what is still being counted."""
        settled = [int(amount) for amount in self.read[start:end]]
        self.read[start:end] = settled
        return sum(settled)
