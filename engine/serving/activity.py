"""Whether anybody waits for an answer, for work that makes way then."""

import threading


class Activity:
    """Counts questions from their arrival to their end; any thread may ask."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._num_questions = 0

    @property
    def is_busy(self) -> bool:
        """Whether a question waits or is being answered."""
        return self._num_questions > 0

    def wait_until_idle(self, timeout_s: float) -> bool:
        """Wait until no question waits or is being answered.

        Returns: whether that is so; false if the time was over first.
        """
        with self._changed:
            return self._changed.wait_for(lambda: not self._num_questions, timeout_s)

    def begin(self) -> None:
        """A question arrived."""
        with self._changed:
            self._num_questions += 1

    def end(self) -> None:
        """A question ended."""
        with self._changed:
            self._num_questions -= 1
            self._changed.notify_all()
