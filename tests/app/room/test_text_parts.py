"""Blocks carry the text's characters, so that offsets of evidence point into them."""

from hypothesis import given
from hypothesis import strategies as st

from app.room.text_parts import PART_CHARS, blocks_of, divide_text
from common.passages import Block, BlockKind, structure_of
from engine.document.artifact import DocumentText
from engine.document.cache import Page

TEXTS = st.lists(
    st.sampled_from(["word ", "# ", "## Head", "\n", "\n\n", " \n \n", "x" * 5000, "é𝄞 ", "a. "]),
    max_size=60,
).map("".join)
OFFSETS = st.lists(st.integers(0, 20_000), max_size=6)


@given(TEXTS, OFFSETS, OFFSETS)
def test_every_visible_character_is_in_one_block_at_its_offset(
    text: str, cuts: list[int], edges: list[int]
) -> None:
    starts = sorted({0, *(cut for cut in cuts if cut < len(text))})
    ends = [*starts[1:], len(text)]
    pages = tuple(Page(n, a, b) for n, (a, b) in enumerate(zip(starts, ends, strict=True), 1))
    edges = sorted({min(edge, len(text)) for edge in edges})
    blocks = [
        Block(BlockKind.LIST_ITEM, a, b) for a, b in zip(edges[::2], edges[1::2], strict=False)
    ]
    document = DocumentText(text, pages, structure_of(text, blocks), 2)
    parts = divide_text(document)
    assert "".join(text[part.start : part.end] for part in parts) == text
    assert all(part.end - part.start <= 2 * PART_CHARS for part in parts)
    shown, found = [" "] * len(text), []
    for part in parts:
        for block in blocks_of(document, part, has_pages=True):
            assert text[block.start : block.start + len(block.text)] == block.text
            assert block.mark + block.shown == block.text
            shown[block.start : block.start + len(block.text)] = block.text
            found += [] if block.page is None else [block.page]
    assert [a for a, b in zip(text, shown, strict=True) if a != b and not a.isspace()] == []
    assert found == ([page.number for page in pages] if text else [])


def test_a_heading_is_shown_without_its_marks() -> None:
    text = "## Gates\nThey close."
    blocks = [Block(BlockKind.HEADING, 3, 8, 2), Block(BlockKind.PARAGRAPH, 9, 20)]
    document = DocumentText(text, (), structure_of(text, blocks), 2)
    shown = blocks_of(document, divide_text(document)[0], has_pages=False)
    assert [(block.level, block.shown) for block in shown] == [(2, "Gates"), (0, "They close.")]
