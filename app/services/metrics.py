"""Counters and histograms of what a server does, in Prometheus' names, units and format.

Each app has a registry of its own. No label names a tenant, a key or a document, and each has few
values, none of which a caller can make up.
"""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
)

from common.spans import OK, Span
from engine.document.budget import AUTO, NAMES
from engine.serving.scheduler import StepKind

QUESTION_STAGES = ("queue", "load", "prefill", "decode")
STORED = "stored"  # the outcome of a question whose answer was there before
NUMBER = "number"  # the kind of a budget that is given as one
QUESTION_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 150, 300)
TOKEN_SECONDS = (0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1)
STEP_SECONDS = (0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1)
ROWS = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """What one server process counts itself.

    Args:
        version, model, device: shown as labels of `lectern_build_info`.

    Attributes:
        registry: also holds what others register; `/metrics` shows all of it.
    """

    def __init__(self, version: str = "", model: str = "", device: str = "") -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        build = Gauge(
            "lectern_build_info",
            "Which version serves which model; always 1.",
            ["version", "model", "device"],
            registry=registry,
        )
        build.labels(version, model, device).set(1)
        self._questions = Counter(
            "lectern_questions",
            "Questions that have ended, by how: ok, stored for a repeated one, or an error's code.",
            ["outcome"],
            registry=registry,
        )
        for outcome in (OK, STORED):
            self._questions.labels(outcome)
        self._stages = Histogram(
            "lectern_question_stage_seconds",
            "Time of a question in each stage, which follow each other.",
            ["stage"],
            buckets=QUESTION_SECONDS,
            registry=registry,
        )
        self._first_token = Histogram(
            "lectern_first_token_seconds",
            "Time from a question's arrival to its answer's first token.",
            buckets=QUESTION_SECONDS,
            registry=registry,
        )
        self._whole = Histogram(
            "lectern_question_seconds",
            "Time from a question's arrival to its end.",
            buckets=QUESTION_SECONDS,
            registry=registry,
        )
        self._token = Histogram(
            "lectern_output_token_seconds",
            "Mean time of a token of an answer after its first one.",
            buckets=TOKEN_SECONDS,
            registry=registry,
        )
        self._tokens = Counter(
            "lectern_tokens",
            "Tokens of questions, and of answers with their thinking.",
            ["kind"],
            registry=registry,
        )
        budgets = {name: _budget_histogram(registry, name) for name in ("requested", "loaded")}
        self._requested, self._loaded = budgets["requested"], budgets["loaded"]
        self._kv_read = Counter(
            "lectern_kv_read_bytes",
            "Bytes of document caches that answers have read.",
            registry=registry,
        )
        self._kv_full = Counter(
            "lectern_kv_full_attention_bytes",
            "Bytes that full attention would have read for the same answers.",
            registry=registry,
        )
        self._steps = Histogram(
            "lectern_step_seconds",
            "Time of a forward pass, by what all questions in it do.",
            ["kind"],
            buckets=STEP_SECONDS,
            registry=registry,
        )
        self._rows = Histogram(
            "lectern_step_questions",
            "Questions that share a forward pass: the size of a batch.",
            ["kind"],
            buckets=ROWS,
            registry=registry,
        )
        self._step_tokens = Counter(
            "lectern_step_tokens",
            "Tokens that went through forward passes.",
            ["kind"],
            registry=registry,
        )
        self._uploads = Counter(
            "lectern_uploads",
            "Uploads that have ended, by how: ok, or the code of the error.",
            ["outcome"],
            registry=registry,
        )
        self._upload = Histogram(
            "lectern_upload_seconds",
            "Time of an upload, from its request to its row in the database.",
            buckets=REQUEST_SECONDS,
            registry=registry,
        )
        self._uploaded = Counter(
            "lectern_uploaded_bytes", "Bytes of uploads that were accepted.", registry=registry
        )
        self._requests = Counter(
            "lectern_http_requests",
            "HTTP requests, by the path of their route, which contains no ids.",
            ["method", "route", "status"],
            registry=registry,
        )
        self._refusals = Counter(
            "lectern_http_errors",
            "HTTP responses that tell an error, by its code.",
            ["code"],
            registry=registry,
        )
        self._request = Histogram(
            "lectern_http_request_seconds",
            "Time of an HTTP request, to the end of its response.",
            ["route"],
            buckets=REQUEST_SECONDS,
            registry=registry,
        )
        self._make_zeros()

    def observe_span(self, span: Span) -> None:
        """Count a question or an upload that has ended; a `SpanListener`."""
        if span.name == "question":
            self._observe_question(span)
        elif span.name == "upload":
            self._uploads.labels(span.code).inc()
            self._upload.observe(span.duration_s)
            if span.code == OK:
                self._uploaded.inc(span.number("num_bytes"))

    def observe_step(
        self, kind: StepKind, num_questions: int, num_tokens: int, spent_s: float
    ) -> None:
        """Count a forward pass; a `StepListener` of the engine loop."""
        name = kind.name.lower()
        self._steps.labels(name).observe(spent_s)
        self._rows.labels(name).observe(num_questions)
        self._step_tokens.labels(name).inc(num_tokens)

    def observe_request(
        self, method: str, route: str, status: int | None, code: str | None, spent_s: float
    ) -> None:
        """Count an HTTP request.

        Args:
            route: the path of its route.
            status: None if no response was begun.
            code: of the error that the response tells, if it does.
        """
        self._requests.labels(method, route, "none" if status is None else str(status)).inc()
        self._request.labels(route).observe(spent_s)
        if code is not None:
            self._refusals.labels(code).inc()

    def _observe_question(self, span: Span) -> None:
        if span.attributes.get("is_stored"):  # it took none of what is timed below
            self._questions.labels(STORED).inc()
            return
        self._questions.labels(span.code).inc()
        self._whole.observe(span.duration_s)
        for stage in span.stages:
            self._stages.labels(stage.name).observe(stage.duration_s)
        if span.code != OK:
            return
        self._first_token.observe(span.number("first_token_s"))
        num_tokens = span.number("answer_tokens")
        if num_tokens > 1:
            decoded_s = span.duration_s - span.number("first_token_s")
            self._token.observe(max(0.0, decoded_s) / (num_tokens - 1))
        self._tokens.labels("question").inc(span.number("question_tokens"))
        self._tokens.labels("answer").inc(num_tokens)
        if span.number("document_tokens") == 0:  # a chat with the model alone reads no cache
            return
        kind = str(span.attributes.get("budget_kind", NUMBER))
        self._requested.labels(kind).observe(span.number("budget_requested"))
        self._loaded.labels(kind).observe(span.number("budget_loaded"))
        self._kv_read.inc(span.number("kv_bytes_read"))
        self._kv_full.inc(span.number("kv_bytes_full"))

    def _make_zeros(self) -> None:
        """Let what will come be there from the start, as a rate needs a first value."""
        for stage in QUESTION_STAGES:
            self._stages.labels(stage)
        for kind in ("question", "answer"):
            self._tokens.labels(kind)
        for kind in (*NAMES, AUTO, NUMBER):
            self._requested.labels(kind)
            self._loaded.labels(kind)
        for step in StepKind:
            name = step.name.lower()
            self._steps.labels(name)
            self._rows.labels(name)
            self._step_tokens.labels(name)
        self._uploads.labels(OK)


def budget_kind(share: float, tolerance: float | None = None) -> str:
    """Return the name of a budget that has one, or else that it was a number.

    Args:
        share: of the cache, that was requested.
        tolerance: what an `auto` budget was to lose at most; None for any other budget.
    """
    if tolerance is not None:
        return AUTO
    return next((name for name, named in NAMES.items() if named == share), NUMBER)


def _budget_histogram(registry: CollectorRegistry, name: str) -> Histogram:
    return Histogram(
        f"lectern_budget_{name}_ratio",
        f"Share of a document's cache that was {name}, by the kind of the request's budget.",
        ["budget"],
        buckets=SHARES,
        registry=registry,
    )
