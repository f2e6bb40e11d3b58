"""The pages of a PDF as PDFium reads and draws them; untrusted files only in the limited child."""

import ctypes
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pypdfium2  # sets the library up
import pypdfium2.raw as pdfium

from common.errors import DocumentRejected, EncryptedPdf, InvalidInput
from ingest.layout import Box, Glyph, Page, collect_runs

LINE_END_HYPHENS = frozenset((0x02, 0xFFFE))  # PDFium's, where a line ends in a word
HYPHEN, SOFT_HYPHEN = "-", "\u00ad"
LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st",
             0xFB06: "st"}  # fmt: skip
BOLD_WEIGHT = 600
BOLD_NAMES = ("bold", "black", "heavy", "semibold", "demi")
WORD_ANGLE = 0.1  # radians that text may be turned from the page's lines
MOST_SHAPES, MOST_DOTS = 5000, 200  # of a page that are looked at for bullets
PNG_HEAD = b"\x89PNG\r\n\x1a\n"


@contextmanager
def open_pdf(path: Path) -> "Iterator[PdfPages]":
    """Open a PDF that needs no password, or an empty one.

    Raises: EncryptedPdf, DocumentRejected.
    """
    try:
        document = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        if pdfium.FPDF_GetLastError() == pdfium.FPDF_ERR_PASSWORD:
            raise EncryptedPdf(
                "The PDF asks for a password. Remove it and upload the file again."
            ) from error
        raise DocumentRejected("The file is damaged and cannot be read as pdf.") from error
    with document:
        yield PdfPages(document.raw)


class PdfPages:
    """The pages of an open PDF, numbered from 1."""

    def __init__(self, document: "ctypes._Pointer[ctypes.Structure]") -> None:
        self._document = document
        self.num_pages: int = pdfium.FPDF_GetPageCount(document)

    def read(self, number: int) -> Page:
        """Read the words of a page in the order in which they are drawn.

        A page that is damaged has none.
        """
        with self._page(number) as page:
            if not page:
                return Page(number, 0.0, 0.0, [])
            width, height = pdfium.FPDF_GetPageWidthF(page), pdfium.FPDF_GetPageHeightF(page)
            text = pdfium.FPDFText_LoadPage(page)
            if not text:
                return Page(number, width, height, [])
            try:
                place, turn = _to_shown(page, width, height)
                runs = collect_runs(_glyphs(text, place, turn))
                return Page(number, width, height, runs, _dots(page, place))
            finally:
                pdfium.FPDFText_ClosePage(text)

    def draw(self, number: int, width: int, max_pixels: int) -> bytes:
        """Draw a page on white.

        Args:
            number: of the page.
            width: of the picture in pixels; its height follows from the page.
            max_pixels: that the picture may have.
        Returns: a PNG file.
        Raises: InvalidInput for a page that is not there, or too many pixels; DocumentRejected if
            the page is damaged.
        """
        if not 1 <= number <= self.num_pages:
            raise InvalidInput(f"page: the document has {self.num_pages} pages.", param="page")
        with self._page(number) as page:
            shown_width = pdfium.FPDF_GetPageWidthF(page) if page else 0.0
            shown_height = pdfium.FPDF_GetPageHeightF(page) if page else 0.0
            if shown_width <= 0 or shown_height <= 0:
                raise DocumentRejected("The page is damaged and cannot be drawn.")
            height = max(1, round(width * shown_height / shown_width))
            if width * height > max_pixels:
                raise InvalidInput(
                    f"width: the picture would have {width * height:,} pixels; at most "
                    f"{max_pixels:,} are drawn.",
                    param="width",
                )
            return _draw(page, width, height)

    @contextmanager
    def _page(self, number: int) -> "Iterator[ctypes._Pointer[ctypes.Structure] | None]":
        page = pdfium.FPDF_LoadPage(self._document, number - 1)
        try:
            yield page or None
        finally:
            if page:
                pdfium.FPDF_ClosePage(page)


def _dots(page: object, place: Callable[..., Box]) -> list[Box]:
    """The small shapes of a page that are as wide as they are high."""
    found: list[Box] = []
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    for index in range(min(pdfium.FPDFPage_CountObjects(page), MOST_SHAPES)):
        shape = pdfium.FPDFPage_GetObject(page, index)
        if pdfium.FPDFPageObj_GetType(shape) != pdfium.FPDF_PAGEOBJ_PATH:
            continue
        if not pdfium.FPDFPageObj_GetBounds(shape, left, bottom, right, top):
            continue
        width, height = right.value - left.value, top.value - bottom.value
        is_dot = 1 < width < 10 and 0.6 < height / width < 1.6
        if is_dot and len(found) < MOST_DOTS:
            found.append(place(left.value, top.value, right.value, bottom.value))
    return found


@dataclass
class _Style:
    """What was found about the text object that a glyph belongs to."""

    is_bold: bool = False
    is_turned: bool = False


def _glyphs(text: object, place: Callable[..., Box], turn: float) -> Iterator[Glyph]:
    """Yield the characters of a page; white space has no box of its own that counts."""
    box, high = pdfium.FS_RECTF(), 0
    known: dict[str, _Style] = {}
    style, is_word_start = _Style(), True
    for index in range(pdfium.FPDFText_CountChars(text)):
        code = pdfium.FPDFText_GetUnicode(text, index)
        if 0xD800 <= code < 0xDC00:
            high = code
            continue
        if 0xDC00 <= code < 0xE000:
            code = 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00) if high else 0xFFFD
        high = 0
        char = LIGATURES.get(code) or _char(code)
        if not char:
            continue
        if char.isspace():
            is_word_start = True
            yield Glyph(" ", None, False, False)
            continue
        if not pdfium.FPDFText_GetLooseCharBox(text, index, box):
            continue
        if is_word_start:  # looked up once a word: it is most of the time
            style = _style(text, index, turn, known)
            is_word_start = False
        shown = place(box.left, box.top, box.right, box.bottom)
        yield Glyph(char, shown, style.is_bold, style.is_turned)


def _char(code: int) -> str:
    if code in LINE_END_HYPHENS:
        return HYPHEN
    if code in (0x09, 0x0A, 0x0D, 0x20, 0xA0, 0x3000):
        return " "
    if code < 0x20 or 0x7F <= code < 0xA0 or code > 0x10FFFF or code in (0xFEFF, 0xFFFF):
        return ""
    return chr(code)


def _style(text: object, index: int, turn: float, known: dict[str, _Style]) -> _Style:
    """Find out whether a character is bold, and whether it is turned against the page's lines."""
    angle = pdfium.FPDFText_GetCharAngle(text, index)
    away = abs((angle - turn + 3.1416) % 6.2832 - 3.1416)
    buffer, flags = ctypes.create_string_buffer(128), ctypes.c_int()
    pdfium.FPDFText_GetFontInfo(text, index, buffer, len(buffer), flags)
    name = buffer.value.decode("utf-8", "replace").lower()
    key = f"{name} {away > WORD_ANGLE}"
    if key not in known:
        weight = pdfium.FPDFText_GetFontWeight(text, index)
        is_bold = weight >= BOLD_WEIGHT or any(part in name for part in BOLD_NAMES)
        known[key] = _Style(is_bold, away > WORD_ANGLE)
    return known[key]


def _to_shown(page: object, width: float, height: float) -> tuple[Callable[..., Box], float]:
    """Return how boxes of the page's own space become boxes of the page as it is shown.

    Returns: a function of left, top, right and bottom in points; and the angle, in radians, that
        text has which stands upright on the shown page.
    """
    scale = 100
    x, y = ctypes.c_int(), ctypes.c_int()

    def probe(page_x: float, page_y: float) -> tuple[float, float]:
        pdfium.FPDF_PageToDevice(
            page, 0, 0, round(width * scale), round(height * scale), 0, page_x, page_y, x, y
        )
        return x.value / scale, y.value / scale

    origin, right, up = probe(0, 0), probe(1000, 0), probe(0, 1000)
    xx, xy = (right[0] - origin[0]) / 1000, (right[1] - origin[1]) / 1000
    yx, yy = (up[0] - origin[0]) / 1000, (up[1] - origin[1]) / 1000

    def place(left: float, top: float, right: float, bottom: float) -> Box:
        x0, y0 = left * xx + top * yx + origin[0], left * xy + top * yy + origin[1]
        x1, y1 = right * xx + bottom * yx + origin[0], right * xy + bottom * yy + origin[1]
        return Box(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))

    quarter_turns = pdfium.FPDFPage_GetRotation(page)
    return place, quarter_turns * 1.5708


def _draw(page: object, width: int, height: int) -> bytes:
    bitmap = pdfium.FPDFBitmap_Create(width, height, 0)
    if not bitmap:
        raise DocumentRejected("The page is too large to be drawn.")
    try:
        pdfium.FPDFBitmap_FillRect(bitmap, 0, 0, width, height, 0xFFFFFFFF)
        flags = pdfium.FPDF_ANNOT | pdfium.FPDF_REVERSE_BYTE_ORDER
        pdfium.FPDF_RenderPageBitmap(bitmap, page, 0, 0, width, height, 0, flags)
        stride = pdfium.FPDFBitmap_GetStride(bitmap)
        address = pdfium.FPDFBitmap_GetBuffer(bitmap)
        pixels = ctypes.string_at(address, stride * height)
    finally:
        pdfium.FPDFBitmap_Destroy(bitmap)
    return _png(pixels, width, height, stride)


def _png(pixels: bytes, width: int, height: int, stride: int) -> bytes:
    """Pack rows of red, green, blue and a byte that says nothing."""
    rows = bytearray()
    for start in range(0, stride * height, stride):
        row = pixels[start : start + 4 * width]
        colours = bytearray(3 * width)
        colours[0::3], colours[1::3], colours[2::3] = row[0::4], row[1::4], row[2::4]
        rows += b"\x00" + colours
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(rows), 6)), (b"IEND", b""))
    return PNG_HEAD + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts
    )
