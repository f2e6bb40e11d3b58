"""Which character encoding a text file has, told from its bytes."""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import charset_normalizer

from common.errors import UnknownEncoding, UnsupportedType

CHUNK_BYTES = 1 << 20
WINDOW_BYTES = 1 << 16  # what the guessing looks at; the decoding always covers the whole file
MAX_CONTROL_SHARE = 0.01  # random bytes have a tenth, text has none
BOMS = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
CONTROLS = bytes(set(range(32)) - set(b"\x00\t\n\x0b\x0c\r\x08\x1b")) + b"\x7f"
CHARSET = re.compile(rb"""<meta[^<>]{0,400}?charset\s*=\s*["']?([\w.:-]{2,40})""", re.IGNORECASE)


@dataclass(frozen=True)
class Encoding:
    """A Python codec and how to treat bytes that it cannot decode."""

    name: str
    errors: str = "strict"


def detect(path: Path, *, html: bool = False) -> Encoding:
    """Tell the encoding of a text file; time is linear in its size, memory constant.

    A byte-order mark decides, then an HTML `charset` (if `html`), then valid UTF-8, then a guess.

    Raises: UnsupportedType if the bytes are not text; UnknownEncoding if they are, in an encoding
    that cannot be told.
    """
    head = _read(path, 0)
    for mark, name in BOMS:
        if head.startswith(mark):
            return _checked(path, Encoding(name))
    _refuse_binary(head)
    declared = _declared(head) if html else None
    if declared is not None:
        return declared
    bad = _first_bad_byte(path)
    return Encoding("utf-8") if bad is None else _guess(path, bad)


def read_text(path: Path, *, html: bool = False) -> str:
    """The whole file as text. Raises: as `detect`."""
    encoding = detect(path, html=html)
    return "".join(pieces(path, encoding))


def pieces(path: Path, encoding: Encoding) -> Iterator[str]:
    """Decode the file piece by piece. Raises: UnknownEncoding where the bytes do not decode."""
    decoder = codecs.getincrementaldecoder(encoding.name)(encoding.errors)
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield decoder.decode(chunk)
        yield decoder.decode(b"", final=True)
    except UnicodeError as error:
        raise _unknown() from error


def _unknown() -> UnknownEncoding:
    return UnknownEncoding(
        "The file's character encoding cannot be told. Save it as UTF-8 and upload it again."
    )


def _binary() -> UnsupportedType:
    return UnsupportedType("The file holds binary data, not text.")


def _read(path: Path, start: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(WINDOW_BYTES)


def _checked(path: Path, encoding: Encoding) -> Encoding:
    for _ in pieces(path, encoding):
        pass
    return encoding


def _refuse_binary(window: bytes) -> None:
    """NULs in every other byte are UTF-16 without a mark; elsewhere they, or controls, are binary.

    A stray NUL is let through: it is stripped later.
    """
    if _looks_like_utf16(window):
        raise _unknown()
    nuls = window.count(0)
    controls = len(window) - len(window.translate(None, CONTROLS))
    if nuls + controls > max(1, MAX_CONTROL_SHARE * len(window)):
        raise _binary()


def _looks_like_utf16(window: bytes) -> bool:
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
    rest = window.translate(None, CONTROLS + b"\x00")
    return len(window) - len(rest) > MAX_CONTROL_SHARE * len(window)


def _reads_well(window: bytes, name: str) -> bool:
    """Whether bytes decode to text with spaces: random bytes soon hold a lone surrogate."""
    try:
        text = window[: len(window) // 2 * 2].decode(name)
    except UnicodeDecodeError:
        return False
    printable = sum(char.isprintable() or char.isspace() for char in text)
    blank = sum(char.isspace() for char in text)
    return printable >= 0.98 * len(text) and blank >= 0.02 * len(text)


def _declared(head: bytes) -> Encoding | None:
    """The encoding that an HTML head names, unless it cannot be (we read ASCII to find it)."""
    found = CHARSET.search(head[:4096])
    if found is None:
        return None
    try:
        name = codecs.lookup(found[1].decode("ascii", "replace")).name
        "".encode(name)  # some codecs are not text encodings
    except LookupError:
        return None
    if name.startswith(("utf-16", "utf-32", "utf-7")):
        return None
    return Encoding("cp1252" if name in ("iso8859-1", "ascii") else name, "replace")


def _first_bad_byte(path: Path) -> int | None:
    """Offset near the first byte that is not UTF-8 (exact to three bytes), or None."""
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


def _guess(path: Path, bad: int) -> Encoding:
    """Guess from a window around the first byte that is not UTF-8."""
    before = min(bad, WINDOW_BYTES // 4)
    window = _read(path, bad - before)
    last_line_end = window.rfind(b"\n") + 1
    window = window[:last_line_end] if last_line_end > before else window
    _refuse_binary(window)
    if _damaged_utf8(window):
        return Encoding("utf-8", "replace")
    return _checked(path, Encoding(_best_guess(window)))


def _best_guess(window: bytes) -> str:
    """The guess that reads most like a language; among equals the most common in the wild."""
    matches = list(charset_normalizer.from_bytes(window))
    if not matches:
        raise _unknown()
    top = max(match.coherence - match.chaos for match in matches)
    equals = [match for match in matches if match.coherence - match.chaos == top]
    if any("cp1252" in match.could_be_from_charset for match in equals):
        return "cp1252"
    return equals[0].encoding


def _damaged_utf8(window: bytes) -> bool:
    """Whether this is UTF-8 with a few bad bytes, rather than another encoding."""
    text = window.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    good = sum(char > "\x7f" for char in text) - bad
    return good >= 20 * bad
