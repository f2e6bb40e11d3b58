"""Work that has ended, with the stages that it went through: what metrics and traces are made of.

Whoever does the work tells a listener once, when the work has ended. Attributes are numbers, ids
and codes; no text of a document, a question or an answer is among them, nor a file's name.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from common.error_trace import error_trace

OK = "ok"
Value = str | int | float | bool


@dataclass(frozen=True)
class Span:
    """A piece of work that has ended.

    Attributes:
        name: what was done, such as `question`, and of a stage, such as `decode`.
        started_s: when it began, in Unix seconds.
        duration_s: how many seconds it took.
        attributes: numbers, ids and codes.
        stages: of which it consisted, in their order.
        code: of the error that ended it, or `OK`.
        parent: the W3C `traceparent` of the request that asked for it; empty for none.
    """

    name: str
    started_s: float
    duration_s: float
    attributes: Mapping[str, Value] = field(default_factory=dict)
    stages: tuple["Span", ...] = ()
    code: str = OK
    parent: str = ""

    def number(self, name: str) -> float:
        """Return an attribute that is a number; 0 if there is none."""
        value = self.attributes.get(name, 0)
        return float(value) if isinstance(value, int | float) else 0.0


SpanListener = Callable[[Span], None]
TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def ignore_spans(span: Span) -> None:
    """Listen to nothing."""


def parse_traceparent(text: str) -> str:
    """Return a W3C `traceparent` as it was given; empty where it is none."""
    return text if TRACEPARENT.fullmatch(text) else ""


def tell_all(*listeners: SpanListener) -> SpanListener:
    """Return a listener that tells several; what one of them raises is logged."""

    def tell(span: Span) -> None:
        for listener in listeners:
            try:
                listener(span)
            except Exception as error:  # the work itself has ended well
                log = structlog.get_logger("lectern.spans")
                log.error("a span was not counted", exception=error_trace(error))

    return tell


def stages_in_order(started_s: float, durations_s: Sequence[tuple[str, float]]) -> tuple[Span, ...]:
    """Return stages that follow each other without a gap.

    Args:
        started_s: when the first one began, in Unix seconds.
        durations_s: names and seconds; stages that took no time are left out.
    """
    stages = []
    for name, duration_s in durations_s:
        if duration_s > 0:
            stages.append(Span(name, started_s, duration_s))
            started_s += duration_s
    return tuple(stages)
