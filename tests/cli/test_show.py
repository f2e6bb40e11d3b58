"""Text in a terminal."""

from cli.show import PHASE_LABELS, one_line
from common.status import Phase


def test_long_passages_are_cut() -> None:
    assert one_line("a\n b\tc") == "a b c"
    assert one_line("word " * 100, 20) == "word word word word\u2026"


def test_every_phase_has_a_label() -> None:
    assert set(PHASE_LABELS) == set(Phase)
