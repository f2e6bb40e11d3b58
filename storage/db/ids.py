"""Ids of documents, which hold the moment at which the document was made (UUID version 7).

A page of documents begins after a given one. Since its id tells when it was made, the next page can
be found even if that document has been deleted since the previous page.
"""

import secrets
from datetime import UTC, datetime, timedelta
from uuid import UUID

VERSION, VARIANT = 7, 0b10
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
FRACTION_BITS = 12  # of a millisecond, enough for every microsecond


def new_document_id(created_at: datetime) -> UUID:
    """Return a new id that holds `created_at`, an aware datetime, to the microsecond.

    Source: RFC 9562, section 5.7, with the increased clock precision of its section 6.2.
    """
    milliseconds, microseconds = divmod((created_at - EPOCH) // MICROSECOND, 1000)
    fraction = (microseconds << FRACTION_BITS) // 1000
    head = (milliseconds << 16) | (VERSION << 12) | fraction
    return UUID(int=(head << 64) | (VARIANT << 62) | secrets.randbits(62))


def created_at_of(document_id: UUID) -> datetime | None:
    """Return the moment that an id holds; None for an id that holds none.

    Documents that were made before ids held it, and invented ids, have none.
    """
    if document_id.version != VERSION:
        return None
    head = document_id.int >> 64
    fraction = head & ((1 << FRACTION_BITS) - 1)
    microseconds = 1000 * (head >> 16) + -(-fraction * 1000 >> FRACTION_BITS)
    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:  # a year that no clock of ours has shown
        return None
