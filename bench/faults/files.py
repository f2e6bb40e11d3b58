"""Hostile files, made in code: slow ones, huge ones, bombs, and texts that are hard to handle."""

import io
import random
import string
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping

MIB = 1 << 20
MARK = "\u0301"  # an accent, which combines with what stands before it
OBJECTS = (
    b"<< /Type /Catalog /Pages 2 0 R >>",
    b"<< /Type /Pages /Count 0 /Kids [] >>",
    b"<< /V 9 >>",
)


def slow_pdf(sections: int, seed: int) -> bytes:
    """A PDF that seems to be encrypted, with so many tables of objects that opening it is slow.

    A table takes pypdf about 0.3 ms on an idle core of today, and 180 bytes.
    """
    out, offsets = bytearray(b"%%PDF-1.4\n%% %d\n" % seed), []
    for number, body in enumerate(OBJECTS, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    rows = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    table = b"xref\n0 4\n0000000000 65535 f \n" + rows
    previous = b""
    for _ in range(sections):
        start = len(out)
        out += table + b"trailer\n<< /Size 4 /Encrypt 3 0 R %s/Root 1 0 R >>\n" % previous
        previous = b"/Prev %d " % start
    return bytes(out + b"startxref\n%d\n%%%%EOF\n" % start)


def drawing_pdf(contents: list[bytes]) -> bytes:
    """A PDF whose pages draw the given content streams."""
    first = 4
    kids = b" ".join(b"%d 0 R" % (first + 2 * number) for number in range(len(contents)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(contents), kids),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, content in enumerate(contents):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % (first + 2 * number + 1)
        )
        packed = zlib.compress(content)
        objects.append(
            b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(packed), packed)
        )
    return _pdf(objects)


def cyclic_pdf(seed: int) -> bytes:
    """A PDF whose tree of pages contains itself."""
    pages = b"<< /Type /Pages /Count 1 /Kids [2 0 R 2 0 R] /N %d >>" % seed
    return _pdf([b"<< /Type /Catalog /Pages 2 0 R >>", pages])


def bomb_pdf(unpacked_bytes: int, seed: int) -> bytes:
    """A small PDF with a page that unpacks to a lot."""
    line = b"(%d) Tj " % seed
    return drawing_pdf([b"BT /F1 12 Tf " + line * (unpacked_bytes // len(line)) + b"ET"])


def bomb_docx(unpacked_bytes: int, seed: int) -> bytes:
    """A small DOCX with a part that unpacks to a lot."""
    return _zip({"word/document.xml": b"<w>%d" % seed + b" " * unpacked_bytes})


def crowded_docx(parts: int, seed: int) -> bytes:
    """A DOCX of very many parts."""
    names = {f"word/{seed}-{number}": b"" for number in range(parts)}
    return _zip({"word/document.xml": b"<w/>", **names})


def words(num_bytes: int, seed: int) -> str:
    """A text of made-up words."""
    rng = random.Random(seed)
    some = ["".join(rng.choices(string.ascii_lowercase, k=rng.randint(1, 9))) for _ in range(997)]
    line = " ".join(rng.choices(some, k=2000)) + ".\n"
    return (line * (num_bytes // len(line) + 1))[:num_bytes]


# Texts that are hard to handle: a number of bytes and a seed -> so many bytes of UTF-8, or fewer.
TEXTS: Mapping[str, Callable[[int, int], bytes]] = {
    "words": lambda size, seed: words(size, seed).encode(),
    "one letter": lambda size, seed: chr(97 + seed % 26).encode() * size,
    "no blanks": lambda size, seed: words(size * 2, seed).replace(" ", "").encode()[:size],
    "newlines": lambda size, seed: (b"%d" % seed + b"\n" * size)[:size],
    "combining marks": lambda size, seed: f"a{seed}{MARK * (size // 2)}".encode()[:size],
    "emoji": lambda size, seed: (str(seed) + "\U0001f9d1\u200d\U0001f680" * (size // 11)).encode(),
    "rare characters": lambda size, seed: _rare(size // 4, seed).encode(),
    "latin-1": lambda size, seed: words(size, seed).replace("a", "\xe4").encode("latin-1"),
}


LONG_BYTES, SHORT_BYTES = 22_000, 2_000  # 22 KB once blocked the only worker without end
LONG_PDF, SHORT_PDF = 30_000, 1_000  # pieces of text


def hostile_files(count: int, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Yield names and bytes of hostile files, each different from the others.

    Every text comes long and far too long for any model; those that come again are short ones, and
    slow PDFs are quicker, so that all can be read within an hour.
    """

    def is_first(number: int) -> bool:
        return number - seed < len(makers)

    makers: list[Callable[[int], tuple[str, bytes]]] = [
        lambda n: (f"slow-{n}.pdf", slow_pdf(LONG_PDF if is_first(n) else SHORT_PDF, n)),
        lambda n: (f"cyclic-{n}.pdf", cyclic_pdf(n)),
        lambda n: (f"bomb-{n}.pdf", bomb_pdf(60 * 1000 * 1000, n)),
        lambda n: (f"pages-{n}.pdf", drawing_pdf([b"BT (%d) Tj ET" % n] * 2000)),
        lambda n: (f"bomb-{n}.docx", bomb_docx(300 * MIB, n)),
        lambda n: (f"crowded-{n}.docx", crowded_docx(5000, n)),
        lambda n: (f"comments-{n}", b"<!---->" * 500 + b"%d" % n),
        lambda n: (f"random-{n}.txt", random.Random(n).randbytes(MIB)),
        *(
            lambda n, make=make, size=size: (f"text-{n}.txt", make(size(n), n))
            for make in TEXTS.values()
            for size in (
                lambda n: LONG_BYTES if is_first(n) else SHORT_BYTES,
                lambda _: 4 * MIB,
            )
        ),
    ]
    for number in range(count):
        yield makers[number % len(makers)](seed + number)


def _pdf(objects: list[bytes]) -> bytes:
    out, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\n" % (len(objects) + 1)
    return bytes(out + b"startxref\n%d\n%%%%EOF\n" % start)


def _zip(parts: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return packed.getvalue()


def _rare(num_chars: int, seed: int) -> str:
    rng = random.Random(seed)
    return "".join(chr(rng.randrange(0x10000, 0x1F000)) for _ in range(num_chars))
