"""The lexical score of passages."""

import pytest

from common.lexical import LexicalIndex, PassageIndex, stem, words_of
from common.passages import plain_structure

TEXTS = ("The gate closes at nine.", "The keeper keeps the gate key.", "Oil is dear.", "")


def scores(texts: tuple[str, ...], question: str) -> list[float]:
    return LexicalIndex([words_of(text) for text in texts]).scores(words_of(question)).tolist()


def test_rare_words_count_more_than_frequent_ones() -> None:
    found = scores(TEXTS, "When does the GATE, which closes, close?")
    assert found[0] > found[1] > found[2] == found[3] == 0.0


def test_a_short_text_goes_before_a_long_one() -> None:
    short, long = scores(("oil", "oil in a lamp of the tower by the sea"), "oil")
    assert short > long > 0


def test_nothing_is_found_in_nothing() -> None:
    assert scores((), "oil") == []
    assert scores(TEXTS, "") == [0.0] * len(TEXTS)


def test_a_passage_shares_what_its_block_is_about() -> None:
    text = "The lamp of Varnholm is old. It closed at nine.\nThe shop is new. It closed at nine."
    structure = plain_structure(text)
    found = PassageIndex(text, structure).scores("When did the Varnholm lamp close?")
    assert found[0] == 1.0
    assert found[1] > found[3] > 0.0, "the same words below another subject"
    assert PassageIndex(text, structure).scores("Zebra?").tolist() == [0.0] * 4


@pytest.mark.parametrize(
    ("words", "same"), [(("close", "closes", "closed", "closing"), "clos"), (("red", "bed"), None)]
)
def test_endings_are_left_off(words: tuple[str, ...], same: str | None) -> None:
    found = {stem(word) for word in words}
    assert found == ({same} if same else set(words))
