"""The lexical score of passages."""

from common.lexical import LexicalIndex

TEXTS = ("The gate closes at nine.", "The keeper keeps the gate key.", "Oil is dear.", "")


def test_rare_words_count_more_than_frequent_ones() -> None:
    scores = LexicalIndex(TEXTS).scores("When does the GATE, which closes, close?")
    assert scores[0] > scores[1] > scores[2] == scores[3] == 0.0


def test_a_short_passage_goes_before_a_long_one() -> None:
    short, long = LexicalIndex(("oil", "oil in a lamp of the tower by the sea")).scores("oil")
    assert short > long > 0


def test_nothing_is_found_in_nothing() -> None:
    assert LexicalIndex(()).scores("oil") == []
    assert LexicalIndex(TEXTS).scores("") == [0.0] * len(TEXTS)
