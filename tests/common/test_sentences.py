"""Sentences of plain text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.sentences import sentence_spans


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two!  Three?\nFour", ["One.", "Two!", "Three?", "Four"]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ("It costs 3.50 today.", ["It costs 3.50 today."]),
        ("a | b\nc | d\n\nEnd.", ["a | b", "c | d", "End."]),
        ("", []),
        ("no stop", ["no stop"]),
    ],
)
def test_sentences_end_at_stops_and_lines(text: str, sentences: list[str]) -> None:
    assert [text[start:end] for start, end in sentence_spans(text)] == sentences


@given(st.text(alphabet='ab .!?"\n)', max_size=40))
def test_spans_cover_all_but_white_space_in_order(text: str) -> None:
    spans = list(sentence_spans(text))
    covered = {at for start, end in spans for at in range(start, end)}
    assert sum(end - start for start, end in spans) == len(covered)
    assert spans == sorted(spans)
    assert all(text[at].isspace() for at in range(len(text)) if at not in covered)
