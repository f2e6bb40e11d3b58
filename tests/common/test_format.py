"""Numbers as people read them."""

from datetime import UTC, datetime, timedelta

import pytest

from common.format import (
    NO_VALUE,
    format_age,
    format_bytes,
    format_count,
    format_duration,
    format_share,
)


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (5 * 2**20, "5.0 MiB"),
        (3 << 30, "3.0 GiB"),
        (2**40, "1.0 TiB"),
        (2**50, "1024.0 TiB"),
    ],
)
def test_bytes(num_bytes: float, text: str) -> None:
    assert format_bytes(num_bytes) == text


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0 ms"),
        (38.4, "38 ms"),
        (999, "999 ms"),
        (1500, "1.5 s"),
        (41_000, "41.0 s"),
        (250_000, "4 min 10 s"),
        (12_000_000, "3 h 20 min"),
        (-2500, "-2.5 s"),
        (-250_000, "-4 min 10 s"),
        (-12_000_000, "-3 h 20 min"),
    ],
)
def test_durations(duration_ms: float, text: str) -> None:
    assert format_duration(duration_ms) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (0.042, "4.2 %"), (0.0567, "5.7 %"), (0.15, "15 %"), (1.0, "100 %")],
)
def test_shares(share: float, text: str) -> None:
    assert format_share(share) == text


def test_what_is_unknown_is_a_dash() -> None:
    unknown = {format_bytes(None), format_duration(None), format_share(None)}
    assert unknown | {format_count(None), format_age(None)} == {NO_VALUE}


def test_ages() -> None:
    now = datetime.now(UTC)
    moments = [now + timedelta(hours=1), now - timedelta(minutes=3.5), now - timedelta(days=2.5)]
    assert [format_age(moment) for moment in moments] == ["just now", "3 min ago", "2 d ago"]


def test_counts() -> None:
    assert format_count(13_010) == "13,010"
