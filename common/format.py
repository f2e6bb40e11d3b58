"""Bytes, durations, shares, counts and ages, as people read them."""

from datetime import UTC, datetime

NO_VALUE = "-"
BYTES_PER_UNIT = 1024
BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
AGE_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))  # seconds of each unit


def format_bytes(num_bytes: float | None) -> str:
    """Write a number of bytes in binary units.

    Args:
        num_bytes: the number of bytes; None if it is not known.
    Returns: for example "412 B", "1.2 GiB", or "-" for None.
    """
    if num_bytes is None:
        return NO_VALUE
    value, unit = float(num_bytes), 0
    while abs(value) >= BYTES_PER_UNIT and unit < len(BYTE_UNITS) - 1:
        value, unit = value / BYTES_PER_UNIT, unit + 1
    return f"{value:.0f} B" if unit == 0 else f"{value:.1f} {BYTE_UNITS[unit]}"


def format_duration(duration_ms: float | None) -> str:
    """Write a duration in the units that suit its length.

    Args:
        duration_ms: the duration in milliseconds; None if it is not known.
    Returns: for example "850 ms", "12.3 s", "4 min 10 s", "3 h 20 min", or "-" for None.
    """
    if duration_ms is None:
        return NO_VALUE
    if abs(duration_ms) < 1000:
        return f"{duration_ms:.0f} ms"
    if abs(duration_ms) < 60_000:
        return f"{duration_ms / 1000:.1f} s"
    sign = "-" if duration_ms < 0 else ""
    minutes, seconds = divmod(round(abs(duration_ms) / 1000), 60)
    if minutes < 60:
        return f"{sign}{minutes} min {seconds} s"
    return f"{sign}{minutes // 60} h {minutes % 60} min"


def format_share(share: float | None) -> str:
    """Write a share as a percentage, with one decimal place below 10 %.

    Args:
        share: the share, where 1 is all; None if it is not known.
    Returns: for example "15 %", "4.2 %", or "-" for None.
    """
    if share is None:
        return NO_VALUE
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.1f} %"


def format_count(count: int | None) -> str:
    """Write a count with thousands separators, for example "12,345", or "-" for None."""
    return NO_VALUE if count is None else f"{count:,}"


def format_age(moment: datetime | None) -> str:
    """Write how long ago a moment was.

    Args:
        moment: an aware datetime; None if there is none.
    Returns: for example "3 min ago", "just now" within the last minute, or "-" for None.
    """
    if moment is None:
        return NO_VALUE
    seconds = max(0.0, (datetime.now(UTC) - moment).total_seconds())
    for unit_s, unit in AGE_UNITS:
        if seconds >= unit_s:
            return f"{seconds // unit_s:.0f} {unit} ago"
    return "just now"
