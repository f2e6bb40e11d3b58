"""Passages of text: whole sentences, items and rows, and where they stand."""

import pytest

from common.passages import (
    Block,
    BlockKind,
    DocumentStructure,
    Place,
    plain_structure,
    quote_of,
    structure_of,
    whole_sentence_spans,
)


@pytest.mark.parametrize(
    "sentences",
    [
        ["Dr. Smith met Mr. Jones at 5 p.m. on Monday.", "He left at 5 p.m.", "It rained."],
        ["The U.S. Army came.", "It was sent by the U.S.", "The war was over."],
        ["See Fig. 3 for No. 7, e.g. Oslo.", "Is that a no.", "Yes."],
        ["J. R. R. Tolkien wrote it.", "It lacks vitamin C.", "The crew fell ill."],
        ['"Who is it?" he asked.', "Nobody spoke!", '"Hi! come in," I said.'],
        ["1. Open the lid.", "Then (if it is cold) wait.", '"Go!"', "He went."],
        ["Am 3. Mai kam z.B. Herr Kahl nach Bonn.", "Es war kalt."],
        ["A line that is\nbroken anywhere goes\non.", "So does\nthis."],
    ],
)
def test_sentences_end_where_a_reader_would_end_them(sentences: list[str]) -> None:
    text = " ".join(sentences)
    assert [text[start:end] for start, end in whole_sentence_spans(text)] == sentences


def shown(text: str, structure: DocumentStructure) -> list[str]:
    return [text[one.start : one.end] for one in structure.passages]


def of(text: str, *parts: tuple[BlockKind, str, int]) -> DocumentStructure:
    """The structure of a text whose blocks are given by kind, words and level."""
    blocks, at = [], 0
    for kind, words, level in parts:
        at = text.index(words, at)
        blocks.append(Block(kind, at, at + len(words), level))
        at += len(words)
    return structure_of(text, blocks)


def test_blocks_become_sentences_items_rows_and_lines() -> None:
    long = "One more thing is said here. " * 12
    text = f"A. B\nFirst. Second.\na. b. c\nx. | Y. z\nif x:\n    y = 1\n{long}"
    structure = of(
        text,
        (BlockKind.HEADING, "A. B", 1),
        (BlockKind.PARAGRAPH, "First. Second.", 0),
        (BlockKind.LIST_ITEM, "a. b. c", 0),
        (BlockKind.TABLE_ROW, "x. | Y. z", 0),
        (BlockKind.CODE, "if x:\n    y = 1", 0),
        (BlockKind.LIST_ITEM, long, 0),
    )
    assert shown(text, structure)[:7] == [
        "A. B", "First.", "Second.", "a. b. c", "x. | Y. z", "if x:", "y = 1",
    ]  # fmt: skip
    assert len(structure.passages) == 7 + 12


def test_a_place_is_a_heading_and_a_number_below_it() -> None:
    text = "Before.\n# Oil\nBurnt. All of it.\n- much\n## Wicks\nTrimmed."
    structure = of(
        text,
        (BlockKind.PARAGRAPH, "Before.", 0),
        (BlockKind.HEADING, "# Oil", 1),
        (BlockKind.PARAGRAPH, "Burnt. All of it.", 0),
        (BlockKind.LIST_ITEM, "- much", 0),
        (BlockKind.HEADING, "## Wicks", 2),
        (BlockKind.PARAGRAPH, "Trimmed.", 0),
    )
    places = [structure.find_place(text, passage) for passage in structure.passages]
    assert places == [
        Place(None, 1), Place("Oil", None), Place("Oil", 1), Place("Oil", 1), Place("Oil", 2),
        Place("Wicks", None), Place("Wicks", 1),
    ]  # fmt: skip


def test_a_text_without_known_structure_has_a_block_a_line() -> None:
    text = "\n  One. Two.\n\nThree\n"
    assert shown(text, plain_structure(text)) == ["One.", "Two.", "Three"]


def test_the_passage_at_a_character() -> None:
    structure = plain_structure("  One. Two.")
    assert [structure.find_passage(char) for char in (0, 2, 6, 7, 99)] == [None, 0, 0, 1, 1]


@pytest.mark.parametrize("blanks", [1, 3, 50])
@pytest.mark.parametrize("num_words", [1, 5, 40])
def test_a_quote_of_a_long_passage_is_its_beginning(num_words: int, blanks: int) -> None:
    text = "No. " + (" " * blanks).join(f"word{index}" for index in range(num_words)) + " End."
    whole = quote_of(text, 4, len(text))
    assert "  " not in whole
    for longest in (10, 50, len(whole) - 1):
        if longest < len(whole):
            assert quote_of(text, 4, len(text), longest) == whole[: longest - 1] + "…"
    for longest in (len(whole), len(whole) + 1, 10_000):
        assert quote_of(text, 4, len(text), longest) == whole
