"""How numbers read."""

import pytest

from cli.show import ms, number, one_line, percent, size


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(None, "-"), (0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (3 << 30, "3.0 GiB")],
)
def test_sizes(num_bytes: int | None, text: str) -> None:
    assert size(num_bytes) == text


def test_shares_and_times() -> None:
    assert (percent(0.0567), percent(0.15), percent(1.0)) == ("5.7 %", "15 %", "100 %")
    assert (ms(38.4), ms(41_000)) == ("38 ms", "41.0 s")
    assert (number(13_010), number(None)) == ("13,010", "-")


def test_long_passages_are_cut() -> None:
    assert one_line("a\n b\tc") == "a b c"
    assert one_line("word " * 100, 20) == "word word word word\u2026"
