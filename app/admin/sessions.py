"""Logins to the dashboard, in this process's memory: a restart logs everybody out."""

import hashlib
import secrets
import threading
import time
from collections import deque
from dataclasses import dataclass, field

IDLE_S = 30 * 60.0
LONGEST_S = 12 * 3600.0
MAX_SESSIONS = 100
WINDOW_S = 60.0
LOGINS_PER_ADDRESS = 5
LOGINS_IN_ALL = 30


@dataclass
class Session:
    """One login; `csrf` must come back with every form."""

    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    opened_s: float = field(default_factory=time.monotonic)
    seen_s: float = field(default_factory=time.monotonic)

    def expired(self, now_s: float) -> bool:
        """Whether it was left alone, or is simply old."""
        return now_s - self.seen_s > IDLE_S or now_s - self.opened_s > LONGEST_S


class Sessions:
    """All logins, found by the hash of their cookie."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[bytes, Session] = {}

    def open(self) -> str:
        """Begin a session and return the token for its cookie, new at every login."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._forget_expired()
            while len(self._open) >= MAX_SESSIONS:
                self._open.pop(next(iter(self._open)))
            self._open[_hash(token)] = Session()
        return token

    def find(self, token: str, *, touch: bool) -> Session | None:
        """Return the session of a cookie.

        Args:
            touch: whether a person did this; a page that refreshes itself does not keep a session.
        """
        with self._lock:
            self._forget_expired()
            session = self._open.get(_hash(token))
            if session is not None and touch:
                session.seen_s = time.monotonic()
            return session

    def close(self, token: str) -> None:
        """End a session."""
        with self._lock:
            self._open.pop(_hash(token), None)

    def _forget_expired(self) -> None:
        now_s = time.monotonic()
        for key in [key for key, session in self._open.items() if session.expired(now_s)]:
            del self._open[key]


class LoginLimiter:
    """Counts login attempts per minute: few from one address, somewhat more in all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attempts: deque[tuple[float, str]] = deque()

    def allow(self, address: str) -> bool:
        """Count an attempt from `address`, unless it is one too many."""
        with self._lock:
            now_s = time.monotonic()
            while self._attempts and now_s - self._attempts[0][0] > WINDOW_S:
                self._attempts.popleft()
            mine = sum(1 for _, other in self._attempts if other == address)
            if mine >= LOGINS_PER_ADDRESS or len(self._attempts) >= LOGINS_IN_ALL:
                return False
            self._attempts.append((now_s, address))
            return True


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()
