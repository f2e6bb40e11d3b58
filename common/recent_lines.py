"""The latest warnings and errors of this process, to be shown beside what they are about."""

import logging
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

MAX_LINES = 500


@dataclass(frozen=True)
class LogLine:
    """A line of the log.

    Attributes:
        event: what happened; it holds no text of documents, questions and answers.
        fields: ids, codes and numbers.
    """

    timestamp: str
    level: str
    event: str
    fields: Mapping[str, str]


class RecentLines(logging.Handler):
    """Keeps the latest lines of this project from warnings on."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: deque[LogLine] = deque(maxlen=MAX_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        line: dict[str, Any] = dict(record.msg) if isinstance(record.msg, dict) else {}
        event = str(line.pop("event", record.getMessage() if not line else ""))
        timestamp, level = str(line.pop("timestamp", "")), record.levelname.lower()
        line.pop("level", None)
        fields = {name: str(value) for name, value in line.items() if not name.startswith("_")}
        self._lines.append(LogLine(timestamp, level, event, fields))

    def latest(self, limit: int, document_id: str = "") -> tuple[LogLine, ...]:
        """Return the latest `limit` lines, newest first.

        Args:
            document_id: of the document that they are about; "" for any.
        """
        lines = (
            line
            for line in reversed(self._lines.copy())
            if not document_id or line.fields.get("document_id") == document_id
        )
        return tuple(line for _, line in zip(range(limit), lines, strict=False))

    @contextmanager
    def listening(self, name: str = "lectern") -> Iterator[None]:
        """Keep the lines of a logger and all below it while the block runs."""
        logger = logging.getLogger(name)
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)
