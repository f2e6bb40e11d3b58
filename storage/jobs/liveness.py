"""Which workers on this data folder are alive, known at once and without a clock.

A worker holds a lock on a file of its own for as long as its process lives; the kernel lets go of
it in any case. Workers of other hosts, whose locks may not be seen here, have only their leases.
"""

import fcntl
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

SUFFIX = ".alive"
NOT_PLAIN = re.compile(r"[^A-Za-z0-9-]")


class Presence:
    """Lock files in one folder, one for each worker."""

    def __init__(self, folder: Path, host: str = "") -> None:
        self._folder = folder
        self._host = NOT_PLAIN.sub("-", host or socket.gethostname())[:60] or "host"
        folder.mkdir(parents=True, exist_ok=True)

    def new_owner(self) -> str:
        """Return a name for a worker of this process; no other ever gets the same."""
        return f"{self._host}_{os.getpid()}_{uuid4().hex[:8]}"

    @contextmanager
    def stay(self, owner: str) -> Iterator[None]:
        """Be seen as alive while the block runs; `owner` is from `new_owner`."""
        entering = self._folder / f"{uuid4().hex}.entering"
        descriptor = os.open(entering, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        path = entering
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            path = entering.rename(self._folder / f"{owner}{SUFFIX}")
            yield
        finally:
            path.unlink(missing_ok=True)
            os.close(descriptor)

    def dead(self) -> tuple[str, ...]:
        """Return the owners of this host whose process has ended without a word."""
        return tuple(
            path.name.removesuffix(SUFFIX)
            for path in self._folder.glob(f"{self._host}_*{SUFFIX}")
            if _is_let_go(path)
        )

    def forget(self, owners: tuple[str, ...]) -> None:
        """Remove the files of dead owners, after their jobs were taken away."""
        for owner in owners:
            (self._folder / f"{owner}{SUFFIX}").unlink(missing_ok=True)


def _is_let_go(path: Path) -> bool:
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
