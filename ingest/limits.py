"""How much work one file may cause before it is refused."""

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """Caps on what a stranger's file can make us do.

    Attributes:
        timeout_s: wall-clock seconds that extraction may take.
        memory_bytes: address space of the extracting process.
        unpacked_bytes: bytes that all parts of an archive or PDF may unpack to.
        ratio: unpacked bytes per byte of the file, looked at above `ratio_floor_bytes`.
        ratio_floor_bytes: below this many unpacked bytes a high ratio is harmless.
        entries: parts that an archive may hold.
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
