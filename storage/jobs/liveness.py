"""Which workers are alive, and whether the clock that ends their leases can be trusted.

A worker holds a lock on a file of its own for as long as its process lives; the operating system
releases it however the process ends. Locks of other hosts may not be visible on a shared file
system, so for their workers only the leases count.
"""

import fcntl
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from time import monotonic
from uuid import uuid4

SUFFIX = ".alive"
NOT_PLAIN = re.compile(r"[^A-Za-z0-9-]")
JUMP_S = 5.0
SETTLE_S = 30.0  # by then every live worker has renewed its lease by the new time


class WorkerLiveness:
    """Lock files in one folder, one for each worker.

    Args:
        folder: where the files are, made with the first of them; all workers share it.
        host: the name of this machine; the system's host name if it is empty.
    """

    def __init__(self, folder: Path, host: str = "") -> None:
        self._folder = folder
        self._host = NOT_PLAIN.sub("-", host or socket.gethostname())[:60] or "host"

    def new_owner(self) -> str:
        """Return a name for a worker of this process, different at every call."""
        return f"{self._host}_{os.getpid()}_{uuid4().hex[:8]}"

    @contextmanager
    def hold(self, owner: str) -> Iterator[None]:
        """Hold the lock that shows that a worker is alive, while the block runs.

        Args:
            owner: the worker's name, from `new_owner`.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        unlocked = self._folder / f"{uuid4().hex}.entering"
        descriptor = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        path = unlocked
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # The file gets its real name only when it is locked, or it would look like a dead one.
            path = unlocked.rename(self._folder / f"{owner}{SUFFIX}")
            yield
        finally:
            path.unlink(missing_ok=True)
            os.close(descriptor)

    def dead_owners(self) -> tuple[str, ...]:
        """Return the workers of this host whose process ended without cleaning up."""
        return tuple(
            path.name.removesuffix(SUFFIX)
            for path in self._folder.glob(f"{self._host}_*{SUFFIX}")
            if _is_unlocked(path)
        )

    def forget(self, owners: tuple[str, ...]) -> None:
        """Remove the files of dead workers, once their jobs have been taken away from them."""
        for owner in owners:
            (self._folder / f"{owner}{SUFFIX}").unlink(missing_ok=True)


class ClockJumps:
    """Notices that the shared clock was set, or that the machine was suspended.

    The clock that all workers share is compared with this process's monotonic clock, which nobody
    can set. After a jump, leases say nothing until their owners have renewed them.
    """

    def __init__(self) -> None:
        self._ahead_s: float | None = None
        self._jumped_s: float | None = None

    def has_settled(self, now: datetime) -> bool:
        """Compare the clocks, and tell whether the last jump was at least `SETTLE_S` ago.

        Args:
            now: the present moment by the shared clock.
        """
        own_s = monotonic()
        previous_s, self._ahead_s = self._ahead_s, now.timestamp() - own_s
        if previous_s is not None and abs(self._ahead_s - previous_s) > JUMP_S:
            self._jumped_s = own_s
        return self._jumped_s is None or own_s - self._jumped_s >= SETTLE_S


def _is_unlocked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
