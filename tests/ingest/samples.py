"""Small documents of every kind, made by code, and hostile ones; the same bytes on every run."""

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import docx
import pypdf

WORD_NS = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STORY = "The lighthouse of Varnholm was lit in 1871. Its keeper was Odile Brandt."
SECOND = "The lamp burned 12 litres of oil a night: caf\u00e9, na\u00efve, \u017elu\u0165."


def txt() -> bytes:
    return f"{STORY}\n\n{SECOND}\n".encode()


def markdown() -> bytes:
    return f"# Lights\n\n{STORY}\n\n- {SECOND}\n\n| a | b |\n|---|---|\n| 1 | 2 |\n".encode()


def html() -> bytes:
    return (
        "<!doctype html><html><head><title>Lights</title><style>p{color:red}</style></head><body>"
        f"<h1>Lights</h1><p>{STORY}</p><p>{SECOND}</p><script>alert(1)</script>"
        "<table><tr><th>Year</th><th>Oil</th></tr><tr><td>1871</td><td>12 l</td></tr></table>"
        "</body></html>"
    ).encode()


def docx_file(change: Callable[[str, bytes], bytes] = lambda _name, data: data) -> bytes:
    """A DOCX by python-docx; `change` may rewrite parts. Packed again with fixed dates."""
    document = docx.Document()
    document.add_heading("Lights", level=1)
    document.add_paragraph(STORY)
    table = document.add_table(rows=2, cols=2)
    for row, values in zip(table.rows, (("Year", "Oil"), ("1871", "12 l")), strict=True):
        for cell, value in zip(row.cells, values, strict=True):
            cell.text = value
    document.add_paragraph(SECOND)
    made = io.BytesIO()
    document.save(made)
    with zipfile.ZipFile(made) as archive:
        parts = {name: change(name, archive.read(name)) for name in archive.namelist()}
    return zip_file(parts)


def with_body(xml: str) -> bytes:
    """A DOCX whose body is the given WordprocessingML."""
    whole = f'<w:document xmlns:w="{WORD_NS}"><w:body>{xml}</w:body></w:document>'
    return docx_file(lambda name, data: whole.encode() if name == "word/document.xml" else data)


def zip_file(parts: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data, 8)
    return packed.getvalue()


def pdf_objects(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """A PDF of hand-written objects; the first is the catalogue."""
    out, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size %d /Root 1 0 R %s >>\n" % (len(objects) + 1, trailer)
    return bytes(out + b"startxref\n%d\n%%%%EOF\n" % start)


def pdf_pages(contents: Sequence[bytes], extra: bytes = b"") -> bytes:
    """A PDF whose pages draw the given content streams (stored deflated)."""
    first = 4
    kids = b" ".join(b"%d 0 R" % (first + 2 * i) for i in range(len(contents)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(contents), kids),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, content in enumerate(contents):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> %s >> >>" % (first + 2 * number + 1, extra)
        )
        packed = zlib.compress(content)
        objects.append(
            b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(packed), packed)
        )
    return pdf_objects(objects)


def pdf_lines(*lines: str) -> bytes:
    """A content stream that writes lines below each other."""
    shown = b" ".join(b"(%s) Tj T*" % line.encode("cp1252") for line in lines)
    return b"BT /F1 12 Tf 14 TL 72 720 Td %s ET" % shown


def pdf() -> bytes:
    return pdf_pages([pdf_lines("Lights", STORY), pdf_lines("The second page names Odile.")])


def encrypted_pdf(user_password: str) -> bytes:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf()))
    writer.encrypt(user_password, "owner", algorithm="RC4-128")
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


def image_pdf() -> bytes:
    """A page that only paints a rectangle, as scans paint their image."""
    return pdf_pages([b"0.5 g 72 72 200 200 re f"])


def pdf_bomb(unpacked_bytes: int = 60_000_000) -> bytes:
    line = b"(A) Tj "
    return pdf_pages([b"BT /F1 12 Tf " + line * (unpacked_bytes // len(line)) + b"ET"])


def slow_pdf(sections: int) -> bytes:
    """A PDF that seems to be encrypted, with many tables of objects, one after the other.

    Opening it takes pypdf about 0.3 ms a table on an idle core of today, without any loop.
    """
    data = pdf_objects(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Count 0 /Kids [] >>",
            b"<< /V 9 >>",
        ],
        b"/Encrypt 3 0 R",
    )
    table = data[data.index(b"xref") : data.index(b"startxref")]
    out, previous = bytearray(data[: data.index(b"xref")]), b""
    for _ in range(sections):
        start = len(out)
        out += table.replace(b"/Root", previous + b"/Root")
        previous = b"/Prev %d " % start
    return bytes(out + b"startxref\n%d\n%%%%EOF\n" % start)


def looping_xref_pdf() -> bytes:
    """A PDF whose table of objects names itself as its predecessor."""
    data = pdf_objects([b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [] >>"])
    start = data.split()[-2]
    return data.replace(b"/Root", b"/Prev %s /Root" % start)


def looping_pages_pdf() -> bytes:
    """A PDF whose tree of pages is its own child."""
    catalogue = b"<< /Type /Catalog /Pages 2 0 R >>"
    return pdf_objects([catalogue, b"<< /Type /Pages /Count 1 /Kids [2 0 R 2 0 R] >>"])


def looping_form_pdf() -> bytes:
    """A PDF whose page draws a form that draws itself."""
    draws = b"/Length 5 >>\nstream\n/X Do\nendstream"
    form = b"<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] %s " + draws
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R %s >>"
    itself = b"/Resources << /XObject << /X 4 0 R >> >>"
    pages = b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>"
    catalogue = b"<< /Type /Catalog /Pages 2 0 R >>"
    return pdf_objects([catalogue, pages, page % itself, form % itself])


def outward_docx() -> bytes:
    """A DOCX with a template and a picture on another host."""
    outside = (
        b'<Relationship Id="rIdOut%d" TargetMode="External" Target="http://example.test/%d" '
        b'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/%s"/>'
    )
    links = b"".join(
        outside % (i, i, kind) for i, kind in enumerate((b"attachedTemplate", b"image"))
    )
    return docx_file(
        lambda name, data: (
            data.replace(b"</Relationships>", links + b"</Relationships>")
            if name == "word/_rels/document.xml.rels"
            else data
        )
    )


def zip_bomb(unpacked_bytes: int) -> bytes:
    """A DOCX with a part that deflates a thousandfold."""
    return docx_file(
        lambda name, data: bytes(unpacked_bytes) if name == "word/styles.xml" else data
    )


def lying_zip(unpacked_bytes: int, name: str = "word/styles.xml") -> bytes:
    """A DOCX with a part of zeros, of which both headers say that it unpacks to 100 bytes."""
    parts = dict.fromkeys(("[Content_Types].xml", "word/document.xml", "word/styles.xml"), b"<w/>")
    parts.pop(name, None)
    data = bytearray(zip_file(parts | {name: bytes(unpacked_bytes)}))
    honest = struct.pack("<I", unpacked_bytes)
    assert data.count(honest) == 2
    return bytes(data).replace(honest, struct.pack("<I", 100))


def crowded_zip(entries: int) -> bytes:
    parts = {"[Content_Types].xml": b"<Types/>", "word/document.xml": b"<w/>"}
    return zip_file(parts | {f"word/media/{i}": b"" for i in range(entries)})


def xxe_docx(secret: Path) -> bytes:
    xml = (
        f'<!DOCTYPE x [<!ENTITY leak SYSTEM "{secret.as_uri()}">]>'
        f'<w:document xmlns:w="{WORD_NS}"><w:body><w:p><w:r><w:t>told: &leak;</w:t></w:r></w:p>'
        "</w:body></w:document>"
    )
    return docx_file(lambda name, data: xml.encode() if name == "word/document.xml" else data)


def laughing_docx(levels: int = 12) -> bytes:
    entities = '<!ENTITY l0 "ha">' + "".join(
        f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, levels)
    )
    xml = (
        f"<!DOCTYPE x [{entities}]><w:document xmlns:w='{WORD_NS}'><w:body><w:p><w:r>"
        f"<w:t>&l{levels - 1};</w:t></w:r></w:p></w:body></w:document>"
    )
    return docx_file(lambda name, data: xml.encode() if name == "word/document.xml" else data)


SAMPLES: Mapping[str, tuple[str, Callable[[], bytes]]] = {
    "txt": ("lights.txt", txt),
    "markdown": ("lights.md", markdown),
    "html": ("lights.html", html),
    "pdf": ("lights.pdf", pdf),
    "docx": ("lights.docx", docx_file),
}
