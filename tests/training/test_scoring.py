"""Scores: what counts as right."""

import pytest

from training.data.facts import Question
from training.scoring import names_all, normalise, overlap, row_of, score


def test_a_row_gives_shares_and_keeps_every_question():
    question = Question("Who?", "the blue door", "single")
    given = (("The blue door.", 0.1), ("a blue door", 0.2), ("red", 0.3))
    row = row_of([score(question, *one) for one in given], 1)
    assert (row["questions"], row["right"], row["exact_match"]) == (3, 1, 0.3333)
    assert (row["refused"], row["loaded"]) == (0.0, 0.2)
    assert row["f1"] == pytest.approx(2 / 3, abs=1e-4)
    assert row["by_question"] == {
        "right": [1, 0, 0], "refused": [0, 0, 0], "f1": [1.0, 1.0, 0.0], "loaded": [0.1, 0.2, 0.3],
        "asked": [score(question, "").asked] * 3,
    }  # fmt: skip
    assert (
        score(Question("Who?", "the red door", "single"), "").asked
        != row["by_question"]["asked"][0]
    )
    assert score(question, "The document does not say.").refused


def test_a_list_must_name_every_value_in_whatever_order_and_no_other():
    assert names_all("b, c and a", "a, b and c")
    assert not names_all("a and b", "a, b and c")
    assert not names_all("a, b, c and d", "a, b and c")
    assert score(Question("Which?", "a and b", "list"), "b and a").right
    assert not score(Question("Which?", "a and b", "two keys"), "b and a").right


def test_overlap_counts_words_without_articles_and_marks():
    assert overlap("the Eiffel Tower!", "Eiffel tower") == 1
    assert overlap("in the old town", "old town hall") == pytest.approx(2 / 3)
    assert overlap("", "x") == 0


def test_case_blanks_and_the_final_stop_do_not_count():
    assert normalise(" The  Document does\nnot say. ") == normalise("the document does not say")
    assert normalise("22:25") != normalise("22:24")
