"""All open connections of a server; when there are too many, the least deserving one is closed.

Nobody is kept out because others hold many connections open. A connection with a request under way
whose API key is valid is never closed to make room. Of the others, one that never carried a valid
key goes first, and of those the one that has waited longest; a caller who sends a request at once
is therefore served, however many others send theirs slowly.
"""

import ipaddress
from collections import Counter, OrderedDict, defaultdict
from typing import Protocol

import structlog

RESERVE = 64  # connections that may always wait, so that a health check finds room
IPV6_SUBSCRIBER_BITS = 64  # one subscriber has so many addresses that they count as one


class Closable(Protocol):
    """A connection, as its register sees it."""

    def close_to_make_room(self) -> None:
        """Close the connection at once."""


def address_group(host: str) -> str:
    """Return under what name limits count an address: itself, or its network if it is IPv6."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host[:100]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, IPV6_SUBSCRIBER_BITS), strict=False))


class _Waiting:
    """Connections that may be closed, in the order in which they are."""

    def __init__(self) -> None:
        self._strangers: OrderedDict[Closable, None] = OrderedDict()
        self._known: OrderedDict[Closable, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._strangers) + len(self._known)

    def add(self, connection: Closable, *, known: bool) -> None:
        (self._known if known else self._strangers)[connection] = None

    def discard(self, connection: Closable) -> None:
        self._strangers.pop(connection, None)
        self._known.pop(connection, None)

    def first(self) -> Closable:
        return next(iter(self._strangers or self._known))


class Connections:
    """The register of open connections; it is used on the event loop only.

    Args:
        max_connections: connections of all addresses together.
        per_address: connections of one address on which no request with a key is under way.
    """

    def __init__(self, max_connections: int, per_address: int) -> None:
        self._max_connections = max_connections
        self._per_address = per_address
        self._addresses: dict[Closable, str] = {}
        self._waiting = _Waiting()
        self._waiting_of: defaultdict[str, _Waiting] = defaultdict(_Waiting)
        self._num_cut: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._addresses)

    def add(self, connection: Closable, address: str) -> None:
        """Register a new connection, and close another one if there are too many."""
        self.wait(connection, address, known=False)

    def remove(self, connection: Closable) -> None:
        """Forget a connection that is closed."""
        self._stop_waiting(connection)
        self._addresses.pop(connection, None)

    def wait(self, connection: Closable, address: str, *, known: bool) -> None:
        """Let a connection be closed from now on if there are too many.

        Args:
            address: for which it counts; one that a proxy uses counts for the proxy's client.
            known: whether one of its requests had a valid key.
        """
        self._stop_waiting(connection)
        self._addresses[connection] = address
        own = self._waiting_of[address]
        own.add(connection, known=known)
        self._waiting.add(connection, known=known)
        if len(own) > self._per_address:
            self._cut(own.first())
        while len(self) > self._max_connections and len(self._waiting) > RESERVE:
            self._cut(self._waiting.first())

    def begin(self, connection: Closable) -> bool:
        """Keep a connection open from now on: a request with a valid key is under way on it.

        Returns: False if there is no room for it, because so many others are under way.
        """
        num_under_way = len(self._addresses) - len(self._waiting)
        if num_under_way >= self._max_connections:
            return False
        self._stop_waiting(connection)
        return True

    def note_cut(self, reason: str) -> None:
        """Count a connection that was closed before its time."""
        self._num_cut[reason] += 1

    def log_cuts(self) -> None:
        """Write how many connections were closed before their time; to be called now and then."""
        counts, self._num_cut = self._num_cut, Counter()
        log = structlog.get_logger("lectern.http")
        for code, num_connections in counts.items():
            log.warning("connections closed", code=code, num_connections=num_connections)

    def _stop_waiting(self, connection: Closable) -> None:
        self._waiting.discard(connection)
        address = self._addresses.get(connection)
        if address is not None:
            own = self._waiting_of[address]
            own.discard(connection)
            if not own:
                del self._waiting_of[address]

    def _cut(self, connection: Closable) -> None:
        self.remove(connection)
        self.note_cut("too_many_connections")
        connection.close_to_make_room()
