"""How many bytes documents take in memory, by their length."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CacheBytes:
    """Bytes that a document's cache takes in memory.

    Attributes:
        per_token: of a long document.
        constant: whatever the document's length: windows, and what streaming heads keep.
    """

    per_token: float
    constant: float

    def of(self, num_tokens: int) -> int:
        """Return about how many bytes a document of so many tokens takes."""
        return int(self.constant + num_tokens * self.per_token)

    def tokens_in(self, num_bytes: float) -> int:
        """Return how many tokens of one document fit into so many bytes."""
        return max(0, int((num_bytes - self.constant) / self.per_token)) if self.per_token else 0
