"""Verifies in the background that a model's files are those that its fingerprint names.

At a start, the fingerprint of files that look unchanged is taken from what was remembered. Here all
of them are hashed, beside the work; a difference means that the process computes with a model that
is not the one that its artifacts are named after.
"""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from common.errors import CacheStale, ModelChanged
from engine.model.fingerprint import weights_fingerprint

CHANGED = (
    "The model's files are not those that its fingerprint names: they were changed. Restart the "
    "server; documents are then read again."
)
STALE = "The model's files were changed under the server; ask again after its restart."
log = logging.getLogger("lectern.model")


class WeightsCheck:
    """Hashes a model's files once, on a thread of its own.

    Args:
        folder: the model's files.
        expected: what `weights_fingerprint` said at the start.
        remembered: where digests are remembered; forgotten if the files differ.
    """

    def __init__(self, folder: Path, expected: str, remembered: Path) -> None:
        self._folder = folder
        self._expected = expected
        self._remembered = remembered
        self._is_over = threading.Event()
        self._has_differed = False
        self._listeners: list[Callable[[], None]] = []

    def start(self) -> None:
        """Begin to hash."""
        threading.Thread(target=self._run, name="weights-check", daemon=True).start()

    def on_difference(self, listener: Callable[[], None]) -> None:
        """Call a listener if the files differ, on the thread that hashes."""
        self._listeners.append(listener)

    def problem(self) -> str | None:
        """Return a sentence for the operator if the files differ."""
        return CHANGED if self._has_differed else None

    def check_answer(self) -> None:
        """Return unless the files are known to differ. Raises: CacheStale."""
        if self._has_differed:
            raise CacheStale(STALE)

    def confirm(self) -> None:
        """Wait until the files are verified, before anything is named after them.

        Raises: ModelChanged if they differ.
        """
        self._is_over.wait()
        self.check_work()

    def check_work(self) -> None:
        """Return unless the files are known to differ. Raises: ModelChanged."""
        if self._has_differed:
            raise ModelChanged(CHANGED)

    def _run(self) -> None:
        try:
            found = weights_fingerprint(self._folder)
        except OSError:  # a file is gone
            found = ""
        if found != self._expected:
            self._has_differed = True
            self._remembered.unlink(missing_ok=True)
            log.error("the model's files were changed: no more answers, restart the server")
        self._is_over.set()
        if self._has_differed:
            for listener in self._listeners:
                listener()
