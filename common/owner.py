"""Whose a request is, for everything that is shared out between those who ask for it."""

from collections.abc import Hashable
from typing import NamedTuple


class Owner(NamedTuple):
    """A tenant and one of its API keys.

    Tenants are equal, however many keys they have, and so are the keys of a tenant.
    """

    tenant: Hashable
    key: Hashable
