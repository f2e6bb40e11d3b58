"""Sessions of the dashboard, kept in memory, so that a restart of the server ends them all."""

import hashlib
import secrets
import threading
import time
from dataclasses import dataclass, field

IDLE_S = 30 * 60.0
MAX_AGE_S = 12 * 3600.0
MAX_SESSIONS = 100


@dataclass
class Session:
    """One login.

    Attributes:
        opened_s, seen_s: monotonic seconds of the login, and of the last request of a person.
        csrf: a token that every form must send back.
    """

    opened_s: float
    seen_s: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    def has_expired(self, now_s: float) -> bool:
        """Return whether nobody has used the session for a while, or it is too old.

        Args:
            now_s: the present monotonic second.
        """
        return now_s - self.seen_s > IDLE_S or now_s - self.opened_s > MAX_AGE_S


class Sessions:
    """All sessions, found by the hash of their cookie's token."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[bytes, Session] = {}

    def open(self) -> str:
        """Open a session, and return the new token for its cookie."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._remove_expired()
            while len(self._open) >= MAX_SESSIONS:
                self._open.pop(next(iter(self._open)))
            now_s = time.monotonic()
            self._open[_hash(token)] = Session(opened_s=now_s, seen_s=now_s)
        return token

    def find(self, token: str, *, touch: bool) -> Session | None:
        """Return the session of a cookie; None if there is none.

        Args:
            touch: whether a person made the request. A page that refreshes itself must not keep a
                session from expiring.
        """
        with self._lock:
            self._remove_expired()
            session = self._open.get(_hash(token))
            if session is not None and touch:
                session.seen_s = time.monotonic()
            return session

    def close(self, token: str) -> None:
        """End the session of a cookie, if there is one."""
        with self._lock:
            self._open.pop(_hash(token), None)

    def _remove_expired(self) -> None:
        now_s = time.monotonic()
        for key in [key for key, session in self._open.items() if session.has_expired(now_s)]:
            del self._open[key]


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()
