"""Blocks carry the text's characters, so that offsets of evidence point into them."""

from hypothesis import given
from hypothesis import strategies as st

from app.room.text_parts import PART_CHARS, blocks_of, divide_text
from engine.document.artifact import DocumentText
from engine.document.cache import Page

TEXTS = st.lists(
    st.sampled_from(["word ", "# ", "## Head", "\n", "\n\n", " \n \n", "x" * 5000, "é𝄞 ", "a. "]),
    max_size=60,
).map("".join)


@given(TEXTS, st.lists(st.integers(0, 20_000), max_size=4))
def test_every_visible_character_is_in_one_block_at_its_offset(text: str, cuts: list[int]) -> None:
    starts = sorted({0, *(cut for cut in cuts if cut < len(text))})
    ends = [*starts[1:], len(text)]
    pages = tuple(Page(n, a, b) for n, (a, b) in enumerate(zip(starts, ends, strict=True), 1))
    document, parts = DocumentText(text, pages), divide_text(text)
    assert "".join(text[part.start : part.end] for part in parts) == text
    assert all(part.end - part.start <= 2 * PART_CHARS + 8 for part in parts)
    shown = [" "] * len(text)
    found = []
    for part in parts:
        for block in blocks_of(document, part, has_headings=True, has_pages=True):
            assert text[block.start : block.start + len(block.text)] == block.text
            assert block.mark + block.shown == block.text
            shown[block.start : block.start + len(block.text)] = block.text
            found += [] if block.page is None else [block.page]
    assert [a for a, b in zip(text, shown, strict=True) if a != b and not a.isspace()] == []
    if text:
        assert found == [page.number for page in pages]


def test_a_line_of_markdown_that_begins_with_hashes_is_a_heading() -> None:
    text = "# Rules\nBe kind.\n\nText\n## Gates\nThey close."
    blocks = blocks_of(
        DocumentText(text, ()), divide_text(text)[0], has_headings=True, has_pages=False
    )
    assert [(block.level, block.shown) for block in blocks] == [
        (1, "Rules"), (0, "Be kind."), (0, "Text"), (2, "Gates"), (0, "They close."),
    ]  # fmt: skip
