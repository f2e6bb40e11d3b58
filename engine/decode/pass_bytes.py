"""Bytes of passes over one document, which are worked out once."""

from dataclasses import dataclass

from engine.decode.graph import fixed_bytes, full_bytes, whole_bytes, windowed_bytes
from engine.document.cache import DocumentCache


@dataclass(frozen=True)
class PassBytes:
    """Bytes of passes over one document.

    Attributes:
        fixed: that every pass with a lookup reads, whatever it selects.
        whole: of a pass that reads all that is kept of the document, without a lookup.
        full: that full attention reads.
        windowed: in layers with a sliding window, which no budget counts.
    """

    fixed: int
    whole: int
    full: int
    windowed: int

    @classmethod
    def of(cls, document: DocumentCache) -> "PassBytes":
        """Work them out, layer by layer."""
        return cls(
            fixed_bytes(document),
            whole_bytes(document),
            full_bytes(document),
            windowed_bytes(document),
        )
