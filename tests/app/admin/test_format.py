"""Numbers as people read them."""

from datetime import UTC, datetime, timedelta

import pytest

from app.admin import format as words


@pytest.mark.parametrize(
    ("given", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (2048, "2 KiB"), (5 * 2**20, "5 MiB"), (2**30, "1.0 GiB")],
)
def test_bytes(given: float, shown: str) -> None:
    assert words.as_bytes(given) == shown


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1500, "1.5 s"),
        (250_000, "4 min 10 s"),
        (12_000_000, "3 h 20 min"),
        (-2500, "-2.5 s"),
    ],
)
def test_durations(given: float, shown: str) -> None:
    assert words.as_duration(given) == shown


@pytest.mark.parametrize(
    ("given", "shown"), [(0.0, "0 %"), (0.042, "4.2 %"), (0.15, "15 %"), (1.0, "100 %")]
)
def test_shares(given: float, shown: str) -> None:
    assert words.as_share(given) == shown


def test_what_is_unknown_is_a_dash() -> None:
    shown = {words.as_bytes(None), words.as_duration(None), words.as_share(None)}
    assert shown | {words.as_count(None), words.as_age(None)} == {words.NONE}


def test_ages() -> None:
    now = datetime.now(UTC)
    ages = [now + timedelta(hours=1), now - timedelta(minutes=3.5), now - timedelta(days=2.5)]
    assert [words.as_age(moment) for moment in ages] == ["just now", "3 min ago", "2 d ago"]
    assert words.as_count(12345) == "12,345"
