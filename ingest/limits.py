"""Limits on the work that one file may cause."""

from dataclasses import dataclass

from common.errors import DocumentTooLong

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
        pixels: that the picture of a page may have.
    """

    timeout_s: float = 60.0
    memory_bytes: int = 1024 * MIB
    unpacked_bytes: int = 200 * MIB
    ratio: int = 100
    ratio_floor_bytes: int = MIB
    entries: int = 2000
    stream_bytes: int = 32 * MIB
    text_chars: int = 128 * MIB
    pixels: int = 12_000_000


def too_long_error(num_chars: int, limits: Limits, *, is_all: bool = True) -> DocumentTooLong:
    """Return the error that refuses a text.

    Args:
        num_chars: that were counted.
        is_all: whether these are all; counting may have ended with the limit.
    """
    return DocumentTooLong(
        f"The file holds {'' if is_all else 'more than '}{num_chars:,} characters; at most "
        f"{limits.text_chars:,} can be read, as the text has to fit into the model's context."
    )
