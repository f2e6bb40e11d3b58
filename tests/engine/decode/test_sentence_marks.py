"""Each sentence of an answer has what was attended to while it was written."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decode.detokenizer import IncrementalDetokenizer
from engine.decode.sentence_marks import MOST_MARKS, Mark, SentenceEnds, SentenceMarks
from tests.models import byte_tokenizer

TOKENIZER = byte_tokenizer()


def mark(num_chars: int, passes: int, *mass: float) -> Mark:
    return Mark(num_chars, passes, torch.tensor(mass))


def parts(marks: SentenceMarks, text: str, last: Mark) -> list[tuple[str, int, list[float]]]:
    return [
        (text[start:end], part.num_passes, part.mass.tolist())
        for (start, end), part in marks.parts(text, last)
    ]


def test_mass_is_told_apart_by_sentence() -> None:
    marks = SentenceMarks()
    text = "It closes at 18:40. Mira paid. She left"
    for at, passes, mass in ((19, 5, (1.0, 0.0)), (30, 7, (1.0, 2.0))):
        assert marks.may_end(text[:at])
        marks.add(mark(at, passes, *mass))
    assert parts(marks, text, mark(len(text), 9, 4.0, 2.0)) == [
        ("It closes at 18:40.", 5, [1.0, 0.0]),
        ("Mira paid.", 2, [0.0, 2.0]),
        ("She left", 2, [3.0, 0.0]),
    ]


def test_points_within_a_sentence_change_nothing() -> None:
    marks = SentenceMarks()
    text = "It costs 3.5 euros."
    marks.add(mark(11, 2, 1.0))  # behind "3."
    assert parts(marks, text, mark(len(text), 4, 3.0)) == [(text, 4, [3.0])]


def test_what_comes_after_the_last_mark_is_one_part() -> None:
    marks, text = SentenceMarks(), "One is. " * (MOST_MARKS + 3)
    for number in range(1, MOST_MARKS + 4):
        shown = text[: 8 * number - 1]
        if marks.may_end(shown):
            marks.add(mark(len(shown), number, float(number)))
    found = parts(marks, text, mark(len(text), 40, 40.0))
    assert len(found) == MOST_MARKS + 1
    assert found[-1] == (("One is. " * 3).strip(), 40 - MOST_MARKS, [8.0])
    assert not SentenceMarks().may_end("")


@given(text=st.text(st.sampled_from('ab .!\u2026\u3002"\u201d\n\u00e9'), max_size=12))
@settings(max_examples=200, deadline=None)
def test_a_sentence_ends_with_no_token_of_which_it_is_not_known(text: str) -> None:
    ends, decoder = SentenceEnds(TOKENIZER), IncrementalDetokenizer(TOKENIZER)
    for token in TOKENIZER(text)["input_ids"]:
        decoder.push(token)
        assert ends.may_end(token) or not SentenceMarks().may_end(decoder.text)


def test_most_tokens_end_no_sentence() -> None:
    ends = SentenceEnds(TOKENIZER)
    assert [ends.may_end(token) for token in TOKENIZER("a b.")["input_ids"]] == [False] * 3 + [True]
