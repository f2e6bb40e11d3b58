"""OpenTelemetry traces of uploads, readings and questions, where the environment names an exporter.

The variables are OpenTelemetry's own. Without them nothing of it is imported.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog

from common.spans import OK, Span, SpanListener, Value, ignore_spans

if TYPE_CHECKING:  # for annotations alone
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

EXPORTER, DISABLED = "OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED"
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
SERVICE = "lectern"
FLUSH_MS = 5000
HOW_TO_INSTALL = "pip install 'lectern[traces]'"


def exporter_name(environment: Mapping[str, str]) -> str:
    """Return which exporter the environment asks for: "otlp", another name, or "" for none."""
    if environment.get(DISABLED, "").lower() == "true":
        return ""
    name = environment.get(EXPORTER, "").strip().lower()
    if not name and any(environment.get(endpoint) for endpoint in ENDPOINTS):
        name = "otlp"
    return "" if name == "none" else name


@contextmanager
def exported_spans(environment: Mapping[str, str] = os.environ) -> Iterator[SpanListener]:
    """Send spans to the exporter that the environment names, while the block runs.

    What cannot be sent is dropped; no work waits for it. Where the exporter is not installed or not
    known, the log says so, as clusters set these variables for everything that they run.
    """
    name = exporter_name(environment)
    if not name:
        yield ignore_spans
        return
    provider = _open_provider(name)
    if provider is None:
        yield ignore_spans
        return
    try:
        yield span_export(provider)
    finally:
        provider.force_flush(FLUSH_MS)
        provider.shutdown()


def span_export(provider: "TracerProvider") -> SpanListener:
    """Return what makes OpenTelemetry spans of ours, stages as children, with their own times."""
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    tracer = provider.get_tracer(SERVICE)
    propagator = TraceContextTextMapPropagator()

    def export(span: Span) -> None:
        """Make the spans, which ends them: the provider's processor sends them later."""
        around = Context()
        if span.parent:
            around = propagator.extract({"traceparent": span.parent}, around)
        made = tracer.start_span(
            span.name,
            around,
            kind=SpanKind.SERVER if span.parent else SpanKind.INTERNAL,
            attributes=_attributes(span),
            start_time=_nanoseconds(span.started_s),
        )
        inside = set_span_in_context(made, around)
        for stage in span.stages:
            started_ns = _nanoseconds(stage.started_s)
            child = tracer.start_span(
                f"{span.name} {stage.name}",
                inside,
                attributes=_attributes(stage),
                start_time=started_ns,
            )
            child.end(_nanoseconds(stage.started_s + stage.duration_s))
        if span.code != OK:
            made.set_status(Status(StatusCode.ERROR, span.code))
        made.end(_nanoseconds(span.started_s + span.duration_s))

    return export


def _open_provider(name: str) -> "TracerProvider | None":
    log = structlog.get_logger("lectern.traces")
    try:
        exporter = _make_exporter(name)
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning("no traces are sent: OpenTelemetry is not installed", hint=HOW_TO_INSTALL)
        return None
    if exporter is None:
        log.warning("no traces are sent: there is no such exporter", exporter=name)
        return None
    resource = Resource.create()
    if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": SERVICE}))  # nobody named another
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    log.info("traces are sent", exporter=name)
    return provider


def _make_exporter(name: str) -> "SpanExporter | None":
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    if name != "otlp":
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _attributes(span: Span) -> dict[str, Value]:
    code: dict[str, Value] = {} if span.code == OK else {"error.type": span.code}
    return {f"lectern.{name}": value for name, value in span.attributes.items()} | code


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
