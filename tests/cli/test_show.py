"""Text in a terminal."""

from cli.show import PHASE_LABELS, budget_line, one_line
from common.status import Phase


def test_long_passages_are_cut() -> None:
    assert one_line("a\n b\tc") == "a b c"
    assert one_line("word " * 100, 20) == "word word word word\u2026"


def test_a_budget_that_the_document_chose_says_why() -> None:
    asked = {"requested": 0.2, "applied": 0.2, "loaded": 0.19, "raised": False, "tolerance": None}
    assert budget_line(asked) == "20 % requested, 19 % loaded"
    chosen = asked | {"tolerance": 0.02}
    assert budget_line(chosen) == "20 % chosen to lose at most 2.0 % of the answers, 19 % loaded"
    raised = chosen | {"applied": 0.25, "raised": True}
    assert ", raised to 25 %, 19 % loaded" in budget_line(raised)


def test_every_phase_has_a_label() -> None:
    assert set(PHASE_LABELS) == set(Phase)
