"""Blocks of text: what the files of each kind consist of."""

import pytest

from common.passages import BlockKind, Place, quote_of, structure_of
from ingest.extract import extract
from ingest.limits import Limits
from tests.ingest import samples
from tests.ingest.conftest import Put

H, P, L, T, C = (
    BlockKind.HEADING,
    BlockKind.PARAGRAPH,
    BlockKind.LIST_ITEM,
    BlockKind.TABLE_ROW,
    BlockKind.CODE,
)
MARKDOWN = """---
title: x
---
# Oil #

It burns. It is
lit at nine.

Wicks
-----
- trim
  them
- > seldom
1. Always.

| a | b |
|---|---|
| 1 | 2 |

```sh
ls
```
> Quoted
> twice.
"""
TXT = """CHAPTER I. THE LAMP

It was lit at nine, and the keeper went up with a can of oil
which weighed as much as a child.
A new line.

- one
- two that is longer than the
  other one
"""
HTML = """<h2>Oil</h2><p>It burns.</p><ol><li>trim</ol><table><tr><th>a<td>b</table>
<pre>x
 y</pre>tail"""
STYLED = """<w:p><w:pPr><w:pStyle w:val="Heading2"/></w:pPr><w:r><w:t>Oil</w:t></w:r></w:p>
<w:p><w:r><w:t>It burns.</w:t></w:r></w:p>
<w:p><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr><w:r><w:t>trim</w:t></w:r></w:p>
<w:p><w:pPr><w:outlineLvl w:val="0"/></w:pPr><w:r><w:t>Wicks</w:t></w:r></w:p>"""


def blocks(put: Put, kind: str, data: bytes) -> list[tuple[BlockKind, int, str]]:
    document = extract(put(data), kind, Limits())
    assert [one.start for one in document.blocks] == sorted(one.start for one in document.blocks)
    return [
        (one.kind, one.level, quote_of(document.text, one.start, one.end))
        for one in document.blocks
    ]


@pytest.mark.parametrize(
    ("kind", "data", "found"),
    [
        (
            "markdown",
            MARKDOWN.encode(),
            [
                (C, 0, "title: x"), (H, 1, "Oil"), (P, 0, "It burns. It is lit at nine."),
                (H, 2, "Wicks"), (L, 0, "trim them"), (L, 0, "seldom"), (L, 0, "1. Always."),
                (T, 0, "a | b"), (T, 0, "1 | 2"), (C, 0, "ls"), (P, 0, "Quoted twice."),
            ],
        ),
        (
            "txt",
            TXT.encode(),
            [
                (H, 1, "CHAPTER I. THE LAMP"),
                (P, 0, "It was lit at nine, and the keeper went up with a can of oil which "
                       "weighed as much as a child."),
                (P, 0, "A new line."), (L, 0, "one"),
                (L, 0, "two that is longer than the other one"),
            ],
        ),
        (
            "html",
            HTML.encode(),
            [(H, 2, "Oil"), (P, 0, "It burns."), (L, 0, "trim"), (T, 0, "a | b"), (C, 0, "x y"),
             (P, 0, "tail")],
        ),
        (
            "docx",
            samples.with_body(STYLED),
            [(H, 2, "Oil"), (P, 0, "It burns."), (L, 0, "trim"), (H, 1, "Wicks")],
        ),
    ],
)  # fmt: skip
def test_blocks_are_found_without_their_marks(
    kind: str, data: bytes, found: list[tuple[BlockKind, int, str]], put: Put
) -> None:
    assert blocks(put, kind, data) == found


@pytest.mark.parametrize("kind", ["txt", "markdown", "html", "docx"])
def test_a_format_without_pages_has_none(kind: str, put: Put) -> None:
    document = extract(put(samples.SAMPLES[kind][1]()), kind, Limits())
    assert (document.pages, document.words) == ((), ())
    structure = structure_of(document.text, document.blocks)
    at = document.text.index("Odile")
    passage = structure.passages[structure.find_passage(at) or 0]
    heading = None if kind == "txt" else "Lights"
    assert structure.find_place(document.text, passage) == Place(heading, 1)
    assert quote_of(document.text, passage.start, passage.end) == "Its keeper was Odile Brandt."


def test_a_long_markdown_file_is_refused_before_it_is_parsed(put: Put) -> None:
    from common.errors import DocumentTooLong

    with pytest.raises(DocumentTooLong):
        extract(put(b"[" * 200_000), "markdown", Limits(text_chars=100_000))
