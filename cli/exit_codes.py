"""What a command's exit code says, for scripts."""

from cli.client import NoServer, Refused
from common.errors import DocumentNotFound, InvalidInput, KeyNotFound, LecternError, TenantNotFound

FAILED, NO_SERVER, NO_SUCH_NAME, NOT_NOW = 1, 3, 4, 5
STATUSES_OF_NOW = frozenset({409, 429, 503, 504})
TOLD = (
    "Exit codes: 0 done; 1 refused or failed; 2 wrong arguments; 3 no server answers; 4 nothing "
    "has this name; 5 not now, try again later (still being read, busy); 130 interrupted."
)


class NoSuchName(InvalidInput):
    """Nothing has the name that a command was given."""

    code = "no_such_name"


def exit_code(error: LecternError) -> int:
    """Return the exit code of a command that ends with an error."""
    if isinstance(error, NoServer):
        return NO_SERVER
    if isinstance(error, NoSuchName | DocumentNotFound | KeyNotFound | TenantNotFound):
        return NO_SUCH_NAME
    if isinstance(error, Refused):
        if error.status == 404:
            return NO_SUCH_NAME
        if error.status in STATUSES_OF_NOW:
            return NOT_NOW
    return FAILED
