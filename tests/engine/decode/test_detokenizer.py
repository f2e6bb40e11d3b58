"""Text that grows token by token."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decode.detokenizer import IncrementalDetokenizer
from tests.models import byte_tokenizer

TOKENIZER = byte_tokenizer()


def pieces_of(text: str) -> tuple[list[str], IncrementalDetokenizer]:
    decoder = IncrementalDetokenizer(TOKENIZER)
    pieces = [decoder.push(token) for token in TOKENIZER(text)["input_ids"]]
    return [*pieces, decoder.flush()], decoder


@pytest.mark.parametrize(
    "text", ["", "plain", "naïve 😀👩‍👩‍👧 日本語\n", "a\ufffdb\ufffd", " lead "]
)
def test_pieces_make_up_the_text(text: str) -> None:
    pieces, decoder = pieces_of(text)
    assert "".join(pieces) == decoder.text == text


@given(text=st.text(st.characters(exclude_characters="<", codec="utf-8"), max_size=20))
@settings(max_examples=100, deadline=None)
def test_any_text_comes_through(text: str) -> None:
    pieces, decoder = pieces_of(text)
    assert "".join(pieces) == decoder.text == text
    assert all("\ufffd" not in piece or "\ufffd" in text for piece in pieces)


def test_a_character_is_shown_once_it_is_whole() -> None:
    decoder = IncrementalDetokenizer(TOKENIZER)
    found = [decoder.push(token) for token in TOKENIZER("é€😀")["input_ids"]]
    assert found == ["", "é", "", "", "€", "", "", "", "😀"]
    assert decoder.flush() == ""


def test_bytes_that_are_no_character_do_not_stop_the_text() -> None:
    whole = TOKENIZER("ab€cd")["input_ids"]
    broken = [*whole[:4], *whole[5:]]  # the last byte of the euro sign is missing
    decoder = IncrementalDetokenizer(TOKENIZER)
    text = "".join([decoder.push(token) for token in broken] + [decoder.flush()])
    assert text == decoder.text == "ab\ufffdcd"


def test_special_tokens_are_not_shown() -> None:
    decoder = IncrementalDetokenizer(TOKENIZER)
    assert [decoder.push(token) for token in (2, 3)] == ["", ""]
    assert decoder.flush() == ""
