"""Traces: what an exporter gets of uploads and questions, and that it gets no text."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from app.factory import create_app
from app.services.services import Services, make_services
from cli.tracing import exported_spans, exporter_name, span_export
from common.spans import Span, SpanListener, parse_traceparent, tell_all
from tests.app.seeding import TEXT, StorageSeeder

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
NO_EXPORTER = """
import sys
from cli.tracing import exported_spans
from common.spans import ignore_spans
with exported_spans({}) as on_span:
    assert on_span is ignore_spans
sys.exit(any(name.startswith("opentelemetry") for name in sys.modules))
"""


@pytest.fixture
def exported() -> Iterator[tuple[SpanListener, InMemorySpanExporter]]:
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield span_export(provider), exporter
    provider.shutdown()


def test_an_upload_and_a_question_are_spans_with_their_stages_and_no_text(
    services: Services,
    seeder: StorageSeeder,
    exported: tuple[SpanListener, InMemorySpanExporter],
) -> None:
    export, exporter = exported
    traced = make_services(
        services.config, services.data_dir, services.storage, services.engine, on_span=export
    )
    with TestClient(create_app(traced), headers=seeder.headers()) as client:
        document_id = seeder.upload(client, name="secret-name.txt")
        seeder.publish()
        asked = {"question": "When does it close?", "max_tokens": 3}
        headers = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
        answer = client.post(f"/documents/{document_id}/ask", json=asked, headers=headers).json()
        refused = client.post(
            f"/documents/{document_id}/ask", json=asked | {"question": "x" * 9999}
        )
        assert refused.status_code == 422
        client.post("/documents", files={"file": ("empty.txt", b"")})
    spans = {span.name: span for span in exporter.get_finished_spans()}
    uploads = [one for one in exporter.get_finished_spans() if one.name == "upload"]
    assert [one.attributes.get("error.type") for one in uploads if one.attributes] == [
        None, "empty_document",
    ]  # fmt: skip
    assert not uploads[1].status.is_ok
    question = spans["question"]
    assert question.attributes is not None
    assert question.attributes["lectern.document_id"] == document_id
    assert question.attributes["lectern.answer_tokens"] == answer["usage"]["completion_tokens"]
    assert question.parent is not None
    assert (f"{question.parent.trace_id:032x}", f"{question.parent.span_id:016x}") == (
        TRACE,
        CALLER,
    )
    stages = [spans[f"question {name}"] for name in ("queue", "load", "prefill", "decode")]
    for stage in stages:
        assert stage.parent is not None
        assert stage.parent.span_id == question.context.span_id
    moments = [moment for stage in stages for moment in (stage.start_time, stage.end_time)]
    assert moments == sorted(moments, key=lambda moment: moment or 0)
    seen = "".join(map(ReadableSpan.to_json, exporter.get_finished_spans()))
    texts = [*TEXT.split(". ")[:3], "secret-name", "When does", answer["answer"]]
    assert [text for text in texts if text.strip() and text in seen] == []


def test_without_an_exporter_nothing_of_opentelemetry_is_imported() -> None:
    assert subprocess.run([sys.executable, "-c", NO_EXPORTER], check=False).returncode == 0


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, "otlp"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, ""),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, ""),
    ],
)
def test_the_exporter_is_named_by_opentelemetrys_own_variables(
    environment: dict[str, str], name: str
) -> None:
    assert exporter_name(environment) == name


def test_an_unknown_exporter_is_said_and_stops_nothing() -> None:
    with capture_logs() as logs, exported_spans({"OTEL_TRACES_EXPORTER": "smoke"}) as on_span:
        on_span(Span("question", 0.0, 1.0))
    assert [one["log_level"] for one in logs] == ["warning"]


def test_a_collector_gets_the_spans_when_the_server_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
        monkeypatch.setenv(*next(iter(endpoint.items())))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        try:
            with exported_spans(endpoint) as on_span:
                on_span(Span("reading", 1.0, 2.0, {"num_tokens": 7}, (Span("prefill", 1.0, 1.0),)))
        finally:
            server.shutdown()
            thread.join()
    sent = b"".join(bodies)
    assert b"reading prefill" in sent
    assert b"lectern.num_tokens" in sent


@pytest.mark.parametrize("text", ["", "00-xyz", f"00-{TRACE}-{CALLER}-01\r\nx: y", "1" * 55])
def test_what_is_no_traceparent_is_ignored(text: str) -> None:
    assert parse_traceparent(text) == ""


def test_a_listener_that_fails_keeps_no_answer_back() -> None:
    told: list[Span] = []

    def breaks(_: Span) -> None:
        raise RuntimeError

    with capture_logs() as logs:
        tell_all(breaks, told.append)(Span("question", 0.0, 1.0))
    assert len(told) == len(logs) == 1
