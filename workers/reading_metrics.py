"""Counters and histograms of the documents that one process reads, in Prometheus' format."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from common.spans import OK, Span
from common.status import Phase

SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 150, 300, 600, 1800, 3600)


class ReadingMetrics:
    """What a worker counts.

    Args:
        registry: of the server in the same process, or one of the worker's own.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._readings = Counter(
            "lectern_readings",
            "Attempts to read a document that have ended, by how: ok, or the code of the error.",
            ["outcome"],
            registry=registry,
        )
        self._readings.labels(OK)
        self._phases = Histogram(
            "lectern_reading_phase_seconds",
            "Time of a document that was read in each phase, which follow each other.",
            ["phase"],
            buckets=SECONDS,
            registry=registry,
        )
        for phase in Phase:
            self._phases.labels(phase)
        self._whole = Histogram(
            "lectern_reading_seconds",
            "Time in which a document was read.",
            buckets=SECONDS,
            registry=registry,
        )
        self._tokens = Counter(
            "lectern_read_tokens", "Tokens of documents that were read.", registry=registry
        )

    def observe_span(self, span: Span) -> None:
        """Count a document that was read, or could not be; a `SpanListener`."""
        self._readings.labels(span.code).inc()
        if span.code != OK:
            return
        self._whole.observe(span.duration_s)
        self._tokens.inc(span.number("num_tokens"))
        spent_s: dict[str, float] = {}
        for stage in span.stages:
            spent_s[stage.name] = spent_s.get(stage.name, 0.0) + stage.duration_s
        for phase, seconds in spent_s.items():
            self._phases.labels(phase).observe(seconds)
