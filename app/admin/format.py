"""Numbers as people read them."""

from datetime import UTC, datetime

KIB = 1024.0
NONE = "–"  # noqa: RUF001 an en dash stands for "no value"


def as_bytes(num_bytes: float | None) -> str:
    """0 B, 412 KiB, 1.2 GiB."""
    if num_bytes is None:
        return NONE
    for unit in ("B", "KiB", "MiB"):
        if abs(num_bytes) < KIB:
            return f"{num_bytes:.0f} {unit}"
        num_bytes /= KIB
    return f"{num_bytes:.1f} GiB"


def as_duration(ms: float | None) -> str:
    """850 ms, 12.3 s, 4 min 10 s, 3 h 20 min."""
    if ms is None:
        return NONE
    if abs(ms) < 1000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if abs(seconds) < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    return f"{minutes // 60} h {minutes % 60} min"


def as_share(share: float | None) -> str:
    """15 %, or 4.2 % where a tenth matters."""
    if share is None:
        return NONE
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.1f} %"


def as_count(count: int | None) -> str:
    """12,345."""
    return NONE if count is None else f"{count:,}"


def as_age(moment: datetime | None) -> str:
    """How long ago, roughly."""
    if moment is None:
        return NONE
    seconds = max(0.0, (datetime.now(UTC) - moment).total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"
