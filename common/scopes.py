"""What an API key may do for its tenant."""

from collections.abc import Iterable
from enum import StrEnum

from common.errors import InvalidInput


class Scope(StrEnum):
    """One thing that a key may do; a key has any number of them.

    None of them implies another, so that a key which only asks cannot see what documents there are.

    Attributes:
        READ: see documents, their progress, and what is used of the tenant's quotas.
        ASK: ask questions.
        WRITE: upload, change and delete documents.
        ADMIN: make and revoke the tenant's keys, and set what holds for all of its documents.
    """

    READ = "read"
    ASK = "ask"
    WRITE = "write"
    ADMIN = "admin"


ALL_SCOPES = tuple(Scope)


def parse_scopes(names: Iterable[str]) -> tuple[Scope, ...]:
    """Return the scopes of these names, each once and in a fixed order.

    Raises: InvalidInput if there is none, or a name is unknown.
    """
    given = {name.strip().lower() for name in names}
    unknown = sorted(given - set(ALL_SCOPES))
    if unknown or not given:
        raise InvalidInput(f"A key has some of the scopes {', '.join(ALL_SCOPES)}.", param="scopes")
    return tuple(scope for scope in ALL_SCOPES if scope in given)
