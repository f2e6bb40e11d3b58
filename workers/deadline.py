"""The deadline of a job, which follows from the length of its document."""

import time

from common.errors import ReadingTimeout
from workers.config import WorkerConfig

MESSAGE = (
    "The document could not be read within {seconds:,.0f} seconds, which is the deadline for one "
    "of its length. It may be damaged or made to take long; an operator can allow more time."
)


class Deadline:
    """A deadline by this process's monotonic clock, which nobody can set.

    It begins with the time for extracting and tokenizing a document of any length, and moves once
    the number of tokens is known.
    """

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self._begun_s = time.monotonic()
        self._allowed_s = config.deadline_base_s

    def expect(self, reading_s: float) -> None:
        """Move the deadline, as reading the document is expected to take so many seconds."""
        config = self._config
        self._allowed_s = config.deadline_base_s + config.deadline_factor * reading_s

    @property
    def elapsed_s(self) -> float:
        """Seconds since the job was claimed."""
        return time.monotonic() - self._begun_s

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline; negative after it."""
        return self._allowed_s - self.elapsed_s

    def check(self) -> None:
        """Return before the deadline. Raises: ReadingTimeout after it."""
        if self.remaining_s <= 0:
            raise ReadingTimeout(MESSAGE.format(seconds=self._allowed_s))
