"""Limits as they are written on the command line: `documents=100 bytes=10GiB`."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from common.errors import InvalidInput
from common.format import NO_VALUE, format_bytes, format_count

if TYPE_CHECKING:  # importing SQLAlchemy takes time, which other commands should not need
    from storage.quotas.quotas import ResourceUse
    from storage.quotas.resources import Resource

AMOUNT = re.compile(r"(\d{1,15})\s*(?:([KMGT])(i?)B?|B)?", re.IGNORECASE)
NO_LIMIT = "none"
Assignments = Annotated[
    list[str],
    typer.Argument(
        help="What is limited and by how much: documents=100, bytes=10GiB, queued_jobs=20, "
        "questions_at_once=2, tokens_per_day=1000000, requests_per_minute=60; "
        "`none` removes a limit.",
        metavar="RESOURCE=AMOUNT...",
    ),
]


def parse_limits(assignments: Iterable[str]) -> dict["Resource", int | None]:
    """Return the limits that are assigned, None for those that are removed.

    Raises: InvalidInput.
    """
    from storage.quotas.resources import Resource

    limits: dict[Resource, int | None] = {}
    for assignment in assignments:
        name, _, amount = assignment.partition("=")
        try:
            resource = Resource(name.strip().lower().replace("-", "_"))
        except ValueError:
            names = ", ".join(Resource)
            raise InvalidInput(f"'{name}' cannot be limited; one of {names} can.") from None
        limits[resource] = _parse_amount(amount.strip())
    return limits


def use_table(uses: Iterable["ResourceUse"]) -> Table:
    """Make a table of what may be used and was used."""
    from storage.quotas.resources import Resource

    table = Table(box=None, pad_edge=False)
    table.add_column("Resource", no_wrap=True)
    for name in ("Used", "Limit"):
        table.add_column(name, justify="right", no_wrap=True)
    for use in uses:
        shown = format_bytes if use.resource is Resource.BYTES else format_count
        used, limit = (NO_VALUE if one is None else shown(one) for one in (use.used, use.limit))
        table.add_row(use.resource, used, limit)
    return table


def _parse_amount(text: str) -> int | None:
    if text.lower() == NO_LIMIT:
        return None
    found = AMOUNT.fullmatch(text)
    if found is None:
        raise InvalidInput(f"'{text}' is no amount; write 100, 10GiB or {NO_LIMIT}.")
    number, unit, is_binary = found.groups()
    exponent = "KMGT".index(unit.upper()) + 1 if unit else 0
    return int(number) * int((1024 if is_binary else 1000) ** exponent)
