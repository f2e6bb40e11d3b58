"""Limits on the work that one file may cause."""

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """Limits on the work that one untrusted file may cause.

    Attributes:
        timeout_s: wall-clock seconds that the extraction may take.
        memory_bytes: bytes of address space that the extracting process may use.
        unpacked_bytes: bytes that all parts of an archive or PDF may unpack to.
        ratio: unpacked bytes for each byte of the file, which counts above `ratio_floor_bytes`.
        ratio_floor_bytes: number of unpacked bytes up to which any ratio is allowed.
        entries: parts that an archive may have.
        stream_bytes: bytes that one stream inside a PDF may unpack to.
        text_chars: characters that the extracted text may have.
    """

    timeout_s: float = 60.0
    memory_bytes: int = 1024 * MIB
    unpacked_bytes: int = 200 * MIB
    ratio: int = 100
    ratio_floor_bytes: int = MIB
    entries: int = 2000
    stream_bytes: int = 32 * MIB
    text_chars: int = 128 * MIB
