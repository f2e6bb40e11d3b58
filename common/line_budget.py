"""A few log lines of each kind in a span of time; the others are counted."""

import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

MAX_LINES = 20
SPAN_S = 10.0
MAX_KINDS = 1000


@dataclass
class _Span:
    """One kind's lines since `started_s`, in monotonic seconds."""

    started_s: float
    num_lines: int = 0
    num_left_out: int = 0


Kind = TypeVar("Kind", bound=Hashable)


class LineBudget(Generic[Kind]):
    """Tells which of many similar log lines are written.

    Args:
        max_lines: lines of one kind that are written in a span.
        span_s: length of a span in seconds.
    """

    def __init__(self, max_lines: int = MAX_LINES, span_s: float = SPAN_S) -> None:
        self._max_lines = max_lines
        self._span_s = span_s
        self._lock = threading.Lock()
        self._spans: dict[Kind, _Span] = {}

    def take(self, kind: Kind) -> int | None:
        """Return None if a line of this kind must be left out.

        Returns: otherwise how many lines of its kind were left out before it and not counted yet.
        """
        with self._lock:
            now_s = time.monotonic()
            span = self._spans.get(kind)
            left_out = 0
            if span is None or now_s - span.started_s >= self._span_s:
                left_out = span.num_left_out if span else 0
                if len(self._spans) >= MAX_KINDS:
                    self._spans.clear()
                span = self._spans[kind] = _Span(now_s)
            if span.num_lines >= self._max_lines:
                span.num_left_out += 1
                return None
            span.num_lines += 1
            return left_out

    def take_counts(self, *, even_now: bool = False) -> dict[Kind, int]:
        """Return how many lines of each kind were left out in spans that are over.

        Args:
            even_now: whether to count the spans that are not over, too.
        """
        with self._lock:
            now_s = time.monotonic()
            ended = [
                kind
                for kind, span in self._spans.items()
                if even_now or now_s - span.started_s >= self._span_s
            ]
            spans = {kind: self._spans.pop(kind) for kind in ended}
            return {kind: span.num_left_out for kind, span in spans.items() if span.num_left_out}
