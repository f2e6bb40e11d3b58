"""Lines of a PDF, joined as the eye joins them, and where their words are."""

from collections.abc import Sequence

import pytest

from common.passages import BlockKind
from ingest.extract import extract
from ingest.limits import Limits
from ingest.page_words import UNIT
from ingest.text import DocumentText
from tests.ingest import samples
from tests.ingest.conftest import Put

Placed = tuple[float, float, str]  # left, distance from the page's top, text


def page(placed: Sequence[Placed], size: float = 12) -> bytes:
    """A content stream that writes each text at its place, in this order."""
    return b" ".join(
        b"BT /F1 %g Tf %g %g Td (%s) Tj ET" % (size, x, 792 - y, text.encode("cp1252"))
        for x, y, text in placed
    )


def read(put: Put, *pages: bytes, extra: bytes = b"") -> DocumentText:
    return extract(put(samples.pdf_pages(pages, extra)), "pdf", Limits())


def shown(document: DocumentText) -> list[str]:
    return [document.text[one.start : one.end] for one in document.blocks]


LEFT = [
    "The keeper of the lighthouse went up",
    "the stairs each night at nine o'clock",
    "with a can of oil that weighed twenty",
    "pounds, and came down without it be-",
]
RIGHT = [
    "fore midnight to write down what he",
    "had seen: the sail of a fishing boat,",
    "a light on the western shore, nothing",
    "else at all for several hours of dark.",
]
STORY = (
    "The keeper of the lighthouse went up the stairs each night at nine o'clock with a can of oil "
    "that weighed twenty pounds, and came down without it before midnight to write down what he "
    "had seen: the sail of a fishing boat, a light on the western shore, nothing else at all for "
    "several hours of dark."
)


def column(x: float, lines: Sequence[str], top: float = 100) -> list[Placed]:
    return [(x, top + 14 * index, line) for index, line in enumerate(lines)]


@pytest.mark.parametrize("is_drawn_across", [False, True])
def test_columns_are_read_one_after_the_other(is_drawn_across: bool, put: Put) -> None:
    columns = [column(60, LEFT), column(320, RIGHT)]
    placed = [line for pair in zip(*columns, strict=True) for line in pair]
    drawn = placed if is_drawn_across else [*columns[0], *columns[1]]
    assert shown(read(put, page(drawn))) == [STORY]


def test_a_sentence_goes_on_over_pages_their_heads_and_numbers(put: Put) -> None:
    def whole(lines: Sequence[str], number: int) -> bytes:
        furniture = [(200.0, 40.0, "Varnholm lights"), (300.0, 760.0, str(number))]
        return page([*furniture, *column(60, lines, top=200)])

    document = read(put, whole(LEFT, 1), whole(RIGHT, 2))
    assert shown(document) == ["Varnholm lights", STORY]
    assert document.text.count("Varnholm") == 1
    assert document.text[document.pages[1].start :].startswith("fore midnight")


def test_rows_of_a_table_keep_their_cells(put: Put) -> None:
    rows = [("Year", "Oil"), ("1871", "12 litres"), ("1872", "14 litres, of rape")]
    placed = [
        (x, 100 + 20 * index, text)
        for index, row in enumerate(rows)
        for x, text in zip((60, 260), row, strict=True)
    ]
    document = read(put, page([*placed, (60, 200, "Below it.")]))
    assert shown(document) == [
        "Year | Oil",
        "1871 | 12 litres",
        "1872 | 14 litres, of rape",
        "Below it.",
    ]
    assert [one.kind for one in document.blocks[:3]] == [BlockKind.TABLE_ROW] * 3


def test_items_short_lines_and_spaces_begin_blocks(put: Put) -> None:
    placed = [
        (60, 100, "Dear keeper,"),
        (60, 114, "this line is as long as the column is wide, and"),
        (60, 128, "so it goes on here."),
        (60, 156, "Behind a space."),
        (60, 170, "(a) oil for the lamp, which is to be bought in"),
        (78, 184, "the town"),
        (60, 198, "(b) wicks"),
    ]
    assert shown(read(put, page(placed))) == [
        "Dear keeper,",
        "this line is as long as the column is wide, and so it goes on here.",
        "Behind a space.",
        "(a) oil for the lamp, which is to be bought in the town",
        "(b) wicks",
    ]


def test_a_sentence_goes_on_over_lines_that_end_early(put: Put) -> None:
    lines = [
        "The night ferry casts off at 22:25 sharp and does not wait",
        "for late lorries. Its master decides, and no",
        "other, whether lorries that come later may be taken aboard.",
    ]
    assert shown(read(put, page(column(60, lines)))) == [" ".join(lines)]


def test_a_hyphen_stays_where_the_word_has_one(put: Put) -> None:
    lines = [
        "He is well-known in this town for his well-",
        "known remarks, which people often re-",
        "peat.",
    ]
    (text,) = shown(read(put, page(column(60, lines))))
    whole = "He is well-known in this town for his well-known remarks, which people often repeat."
    assert text == whole


def test_large_text_is_a_heading(put: Put) -> None:
    content = page([(60, 80, "Oil and wicks")], size=20) + b" " + page(column(60, LEFT))
    document = read(put, content)
    assert [(one.kind, one.level) for one in document.blocks] == [
        (BlockKind.HEADING, 1),
        (BlockKind.PARAGRAPH, 0),
    ]


@pytest.mark.parametrize(("turn", "size"), [(0, (6120, 7920)), (90, (7920, 6120))])
def test_words_have_boxes_on_the_page_as_it_is_shown(
    turn: int, size: tuple[int, int], put: Put
) -> None:
    upright = page([(100.0, 200.0, "oil is dear")])
    turned = b"BT /F1 12 Tf 0 1 -1 0 200 100 Tm (oil is dear) Tj ET"
    rotate = b">> /Rotate %d /Group <<" % turn  # behind the page's resources
    document = read(put, turned if turn else upright, extra=rotate)
    (found,) = document.words
    assert (found.number, found.width, found.height) == (1, *size)
    assert [document.text[one.start : one.end] for one in found.words] == ["oil", "is", "dear"]
    for word in found.words:
        assert abs(word.bottom - 200 * UNIT) < 4 * UNIT, "a descender below the baseline"
        assert 9 * UNIT < word.bottom - word.top < 18 * UNIT
    lefts = [word.left / UNIT for word in found.words]
    assert lefts == pytest.approx([100, 100 + 12 * 1.334, 100 + 12 * 2.334], abs=1.5)


def test_a_broken_word_has_a_box_on_each_line(put: Put) -> None:
    document = read(put, page(column(60, LEFT)), page(column(60, RIGHT)))
    ends = [one.words for one in document.words]
    assert document.text[ends[0][-1].start : ends[1][0].end] == "before"
