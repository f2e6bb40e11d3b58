"""Detect the character encoding of a text file from its bytes."""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import charset_normalizer

from common.errors import UnknownEncoding, UnsupportedType

CHUNK_BYTES = 1 << 20
WINDOW_BYTES = 1 << 16  # guesses are made from so many bytes, and checked with the whole file
MAX_CONTROL_SHARE = 0.01  # a tenth of random bytes are control characters, but none of a text
BOMS = (  # UTF-32 comes first, because its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
CONTROLS = bytes(set(range(32)) - set(b"\x00\t\n\x0b\x0c\r\x08\x1b")) + b"\x7f"
QUICK_CODECS = frozenset({"utf-8", "cp1252"})
CHARSET = re.compile(rb"""<meta[^<>]{0,400}?charset\s*=\s*["']?([\w.:-]{2,40})""", re.IGNORECASE)


@dataclass(frozen=True)
class Encoding:
    """A Python codec, and how it treats bytes that it cannot decode."""

    name: str
    errors: str = "strict"


def detect(path: Path, *, html: bool = False) -> Encoding:
    """Detect the encoding of a text file, in linear time and constant memory.

    A byte-order mark decides first, then the `charset` of an HTML file, then whether the bytes are
    valid UTF-8; otherwise the encoding is guessed.

    Args:
        path: the file.
        html: whether the file may declare its encoding as HTML files do.
    Raises: UnsupportedType if the bytes are not text; UnknownEncoding if they are text in an
        encoding that cannot be determined.
    """
    head = _read(path, 0)
    if (marked := _marked_encoding(path, head)) is not None:
        return marked
    declared = _declared_encoding(head) if html else None
    if declared is not None:
        return declared
    offset = _find_invalid_utf8(path)
    return Encoding("utf-8") if offset is None else _guess_encoding(path, offset)


def detect_quickly(path: Path, *, html: bool = False) -> Encoding | None:
    """Detect the encoding if it need not be guessed, and decoding it is quick.

    A guess takes seconds of processor time, and so do some codecs that an HTML file may declare.

    Returns: what `detect` returns; None if that would take longer.
    Raises: UnsupportedType, UnknownEncoding, as `detect` does.
    """
    head = _read(path, 0)
    if (marked := _marked_encoding(path, head)) is not None:
        return marked
    declared = _declared_encoding(head) if html else None
    if declared is not None:
        return declared if declared.name in QUICK_CODECS else None
    return Encoding("utf-8") if _find_invalid_utf8(path) is None else None


def read_text(path: Path, *, html: bool = False) -> str:
    """Return the whole file as text; see `detect` for the arguments and errors."""
    encoding = detect(path, html=html)
    return "".join(decode_pieces(path, encoding))


def decode_pieces(path: Path, encoding: Encoding) -> Iterator[str]:
    """Decode a file piece by piece.

    Args:
        path: the file.
    Raises: UnknownEncoding if its bytes cannot be decoded.
    """
    decoder = codecs.getincrementaldecoder(encoding.name)(encoding.errors)
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield decoder.decode(chunk)
        yield decoder.decode(b"", final=True)
    except UnicodeError as error:
        raise _unknown_error() from error


def _unknown_error() -> UnknownEncoding:
    return UnknownEncoding(
        "The file's character encoding cannot be determined. Save it as UTF-8 and upload it again."
    )


def _binary_error() -> UnsupportedType:
    return UnsupportedType("The file holds binary data, not text.")


def _marked_encoding(path: Path, head: bytes) -> Encoding | None:
    """Return the encoding that a byte-order mark names; refuse bytes that are not text."""
    for bom, name in BOMS:
        if head.startswith(bom):
            return _checked_encoding(path, Encoding(name))
    _refuse_binary(head)
    return None


def _read(path: Path, start: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(WINDOW_BYTES)


def _checked_encoding(path: Path, encoding: Encoding) -> Encoding:
    for _ in decode_pieces(path, encoding):
        pass
    return encoding


def _refuse_binary(window: bytes) -> None:
    """Refuse bytes that are not text, or are UTF-16 without a byte-order mark.

    A single NUL is allowed, because it is removed from the text later.

    Raises: UnsupportedType, UnknownEncoding.
    """
    if _looks_like_utf16(window):
        raise _unknown_error()
    nuls = window.count(0)
    controls = len(window) - len(window.translate(None, CONTROLS))
    if nuls + controls > max(1, MAX_CONTROL_SHARE * len(window)):
        raise _binary_error()


def _looks_like_utf16(window: bytes) -> bool:
    """Return whether every other byte is NUL, or 16-bit units read like text and bytes do not."""
    even, odd = window[0::2], window[1::2]
    few, many = sorted((even.count(0) / max(len(even), 1), odd.count(0) / max(len(odd), 1)))
    if len(window) < 8:
        return False
    if many > 0.3 and few < 0.1:
        return True
    return _has_controls(window) and any(
        _reads_well(window, name) for name in ("utf-16-le", "utf-16-be")
    )


def _has_controls(window: bytes) -> bool:
    without_controls = window.translate(None, CONTROLS + b"\x00")
    return len(window) - len(without_controls) > MAX_CONTROL_SHARE * len(window)


def _reads_well(window: bytes, name: str) -> bool:
    """Return whether bytes decode to printable text with spaces, which random bytes never do."""
    try:
        text = window[: len(window) // 2 * 2].decode(name)
    except UnicodeDecodeError:
        return False
    printable = sum(char.isprintable() or char.isspace() for char in text)
    blank = sum(char.isspace() for char in text)
    return printable >= 0.98 * len(text) and blank >= 0.02 * len(text)


def _declared_encoding(head: bytes) -> Encoding | None:
    """Return the encoding that an HTML head declares, unless the head could not be ASCII then."""
    declaration = CHARSET.search(head[:4096])
    if declaration is None:
        return None
    try:
        name = codecs.lookup(declaration[1].decode("ascii", "replace")).name
        "".encode(name)  # this fails for codecs that are not text encodings
    except LookupError:
        return None
    if name.startswith(("utf-16", "utf-32", "utf-7")):
        return None
    return Encoding("cp1252" if name in ("iso8859-1", "ascii") else name, "replace")


def _find_invalid_utf8(path: Path) -> int | None:
    """Return the offset of the first invalid UTF-8 byte, or up to three bytes before; else None."""
    decoder, done = codecs.getincrementaldecoder("utf-8")(), 0
    with path.open("rb") as file:
        while True:
            chunk = file.read(CHUNK_BYTES)
            try:
                decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                return done + error.start
            if not chunk:
                return None
            done += len(chunk)


def _guess_encoding(path: Path, offset: int) -> Encoding:
    """Guess the encoding from the bytes around the first one that is not valid UTF-8."""
    before = min(offset, WINDOW_BYTES // 4)
    window = _read(path, offset - before)
    last_line_end = window.rfind(b"\n") + 1
    window = window[:last_line_end] if last_line_end > before else window
    _refuse_binary(window)
    if _is_damaged_utf8(window):
        return Encoding("utf-8", "replace")
    return _checked_encoding(path, Encoding(_best_guess(window)))


def _best_guess(window: bytes) -> str:
    """Return the encoding whose text is most like a language; of equal ones, the most common."""
    matches = list(charset_normalizer.from_bytes(window))
    if not matches:
        raise _unknown_error()
    best_score = max(match.coherence - match.chaos for match in matches)
    best = [match for match in matches if match.coherence - match.chaos == best_score]
    if any("cp1252" in match.could_be_from_charset for match in best):
        return "cp1252"
    return best[0].encoding


def _is_damaged_utf8(window: bytes) -> bool:
    """Return whether this is UTF-8 with a few invalid bytes, rather than another encoding."""
    text = window.decode("utf-8", "replace")
    num_invalid = text.count("\ufffd")
    num_valid = sum(char > "\x7f" for char in text) - num_invalid
    return num_valid >= 20 * num_invalid
