"""The servers and workers that run, each of which shows every few seconds that it lives."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import structlog
from sqlalchemy import delete, select, update

from common.errors import LecternError
from storage.db.database import Database
from storage.db.records import ProcessRecord, record
from storage.db.tables import Process

BEAT_S = 5.0
SILENT_S = 20.0  # after which a process counts as dead
FORGOTTEN_S = 3600.0  # after which the caches of its settings may be removed for room
SERVER, WORKER = "server", "worker"


class Processes:
    """The rows of processes. All times are the database server's."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @contextmanager
    def alive(self, name: str, role: str, fingerprint: str) -> Iterator[None]:
        """Show that a process lives, from a thread of its own, while the block runs.

        Args:
            name: unique, and different at every start.
            role: `SERVER` or `WORKER`.
            fingerprint: names its model and settings.
        """
        stop = threading.Event()

        def beat() -> None:
            while True:
                try:
                    self.beat(name, role, fingerprint)
                except LecternError as error:
                    log = structlog.get_logger("lectern.storage")
                    log.warning("process not shown as alive", reason=error.code)
                if stop.wait(BEAT_S):
                    return

        thread = threading.Thread(target=beat, name="alive", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            self._forget(name)

    def beat(self, name: str, role: str, fingerprint: str) -> None:
        """Note that a process lives now."""
        with self._db.session() as session:
            now = self._db.now(session)
            known = update(Process).where(Process.name == name).values(heartbeat_at=now)
            if session.execute(known.returning(Process.name)).first() is None:
                session.add(
                    Process(
                        name=name,
                        role=role,
                        fingerprint=fingerprint,
                        started_at=now,
                        heartbeat_at=now,
                    )
                )

    def living(self, role: str) -> Sequence[ProcessRecord]:
        """Return the processes of a role that have shown lately that they live."""
        with self._db.reading() as session:
            now, silent = self._db.now(session), timedelta(seconds=SILENT_S)
            living = select(Process).where(
                Process.role == role,
                # A heartbeat from the future is from before the clock was set back.
                Process.heartbeat_at.between(now - silent, now + silent),
            )
            return tuple(record(ProcessRecord, row) for row in session.scalars(living))

    def prune(self) -> None:
        """Remove the rows of processes that were killed an hour ago."""
        with self._db.session() as session:
            now, forgotten = self._db.now(session), timedelta(seconds=FORGOTTEN_S)
            is_recent = Process.heartbeat_at.between(now - forgotten, now + forgotten)
            session.execute(delete(Process).where(~is_recent))

    def _forget(self, name: str) -> None:
        try:
            with self._db.session() as session:
                session.execute(delete(Process).where(Process.name == name))
        except LecternError as error:  # the row will be pruned
            log = structlog.get_logger("lectern.storage")
            log.warning("process not shown as ended", reason=error.code)
