"""The metrics: who may see them, what they say, and that every panel finds what it asks for."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from pydantic import SecretStr
from starlette.testclient import TestClient

from app.config import ServerConfig
from app.factory import create_app
from app.http.metrics import check_scraper
from app.services.metrics import budget_kind
from app.services.services import Services
from common.errors import DatabaseUnavailable, MetricsClosed, MetricsTokenWrong
from common.spans import Span
from tests.app.seeding import TEXT, StorageSeeder
from workers.reading_metrics import ReadingMetrics

ROOT = Path(__file__).resolve().parents[3]
DASHBOARD = ROOT / "deploy" / "grafana" / "lectern.json"
TOKEN = "a-token-of-the-operator"
LABELS = {  # none of which names a tenant, a key or a document
    *("version", "model", "device", "outcome", "stage", "kind", "budget", "method", "route"),
    *("status", "code", "tier", "result", "reason", "part", "cause", "phase", "role", "le"),
}
UNITS = ("_seconds", "_bytes", "_ratio", "_info", "_up", "_tokens", "_questions")


@pytest.fixture
def with_token(services: Services) -> Services:
    return replace(services, config=replace(services.config, metrics_token=SecretStr(TOKEN)))


@pytest.fixture
def scraped(
    with_token: Services, seeder: StorageSeeder
) -> Iterator[tuple[TestClient, dict[str, Any]]]:
    """A server that was uploaded to, asked and refused something, and what it then shows."""
    reading = ReadingMetrics(with_token.metrics.registry)
    with TestClient(create_app(with_token), headers=seeder.headers()) as client:
        document_id = seeder.ready(client)
        reading.observe_span(
            Span("reading", 0.0, 3.0, {"num_tokens": 90}, (Span("prefill", 0.0, 2.0),))
        )
        for budget in ("balanced", 0.3):
            asked = {"question": "When does it close?", "budget": budget, "max_tokens": 3}
            assert client.post(f"/documents/{document_id}/ask", json=asked).status_code == 200
        with_token.on_span(Span("question", 0.0, 0.001, {"is_stored": True}))
        assert client.get("/documents/none").status_code == 404
        yield client, samples_of(scrape(client))


def scrape(client: TestClient, token: str = TOKEN) -> str:
    response = client.get("/metrics", headers={"authorization": f"Bearer {token}"})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/plain; version=")
    return str(response.text)


def samples_of(text: str) -> dict[str, list[Sample]]:
    """What the exposition says by the name of a sample, as prometheus-client reads it."""
    found: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def value(samples: Mapping[str, list[Sample]], name: str, **labels: str) -> float:
    fitting = [one for one in samples[name] if labels.items() <= one.labels.items()]
    assert len(fitting) == 1, (name, labels, fitting)
    return float(fitting[0].value)


def test_what_happened_is_counted(scraped: tuple[TestClient, dict[str, Any]]) -> None:
    _, samples = scraped
    assert value(samples, "lectern_questions_total", outcome="ok") == 2
    assert value(samples, "lectern_questions_total", outcome="stored") == 1
    assert value(samples, "lectern_first_token_seconds_count") == 2
    assert value(samples, "lectern_question_stage_seconds_count", stage="prefill") == 2
    assert value(samples, "lectern_question_stage_seconds_count", stage="decode") == 2
    assert value(samples, "lectern_budget_requested_ratio_count", budget="balanced") == 1
    assert value(samples, "lectern_budget_requested_ratio_count", budget="number") == 1
    assert value(samples, "lectern_budget_loaded_ratio_sum", budget="number") > 0
    read = value(samples, "lectern_kv_read_bytes_total")
    assert 0 < read < value(samples, "lectern_kv_full_attention_bytes_total")
    assert value(samples, "lectern_cache_lookups_total", result="miss") == 1
    assert value(samples, "lectern_cache_lookups_total", result="hit") == 1
    assert value(samples, "lectern_cache_loads_total", tier="disk") == 1
    assert value(samples, "lectern_cache_documents", tier="device") == 1
    assert value(samples, "lectern_step_questions_count", kind="prefill") == 2
    assert value(samples, "lectern_step_questions_sum", kind="decode") == 4
    assert value(samples, "lectern_uploads_total", outcome="ok") == 1
    assert value(samples, "lectern_uploaded_bytes_total") == len(TEXT)
    assert value(samples, "lectern_documents", status="ready") == 1
    assert value(samples, "lectern_processes", role="worker") == 1
    assert value(samples, "lectern_reading_phase_seconds_sum", phase="prefill") == 2
    assert value(samples, "lectern_http_errors_total", code="document_not_found") == 1
    route = "/documents/{document_id}/ask"
    assert value(samples, "lectern_http_requests_total", route=route, status="200") == 2
    assert value(samples, "lectern_fallbacks_total", part="kernels", cause="failed") == 0


def test_names_units_and_labels_follow_the_conventions(
    scraped: tuple[TestClient, dict[str, Any]], seeder: StorageSeeder
) -> None:
    client, samples = scraped
    text = scrape(client)
    for family in text_string_to_metric_families(text):
        if family.name.startswith("lectern_") and not family.name.endswith("_created"):
            assert family.type in ("counter", "gauge", "histogram"), family.name
            is_count = family.type == "counter" or any(
                f"{word}" in family.name
                for word in ("documents", "questions", "slots", "jobs", "processes")
            )
            assert is_count or family.name.endswith(UNITS), family.name
            assert not family.name.endswith(("_ms", "_mib", "_percent")), family.name
    labels = {label for found in samples.values() for one in found for label in one.labels}
    assert labels <= LABELS | {"version"}
    for secret in (str(seeder.tenants["owner"]), "east wing", "a.txt", "When does", TOKEN):
        assert secret not in text


def test_every_query_of_the_dashboard_is_answered(
    scraped: tuple[TestClient, dict[str, Any]],
) -> None:
    _, samples = scraped
    dashboard = json.loads(DASHBOARD.read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(queries) > len(panels) > 30
    used: set[str] = set()
    for query in queries:
        bare = re.sub(r'"[^"]*"', '""', query)
        names = set(re.findall(r"\b(?:lectern|process)_\w+", bare))
        assert names, query
        used |= names
        for name, selector in re.findall(r"\b((?:lectern|process)_\w+)\{([^}]*)\}", query):
            wanted = dict(re.findall(r'(\w+)="([^"]*)"', selector))
            known = {label for one in samples.get(name, ()) for label in one.labels}
            assert set(re.findall(r"(\w+)=", selector)) <= known | {"instance"}, query
            assert any(wanted.items() <= one.labels.items() for one in samples[name]), query
        for grouped in re.findall(r"\bby \(([^)]*)\)", query):
            for name in names:
                of_name = {label for one in samples[name] for label in one.labels}
                assert set(re.split(r",\s*", grouped)) <= of_name | {"instance"}, query
    # and nothing is counted that no panel shows
    told = {name for name in samples if not name.endswith("_created")}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in told}
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in used}
    assert {name for name in families if name.startswith("lectern_")} - shown == set()


def test_without_a_setting_nobody_sees_them(client: TestClient) -> None:
    response = client.get("/metrics")
    assert (response.status_code, response.json()["error"]["code"]) == (403, "metrics_closed")
    assert "LECTERN_SERVER__METRICS_TOKEN" in response.json()["error"]["message"]


def test_no_api_key_opens_them(with_token: Services, seeder: StorageSeeder) -> None:
    with TestClient(create_app(with_token), headers=seeder.headers()) as client:
        response = client.get("/metrics")
        assert response.status_code == 401
        assert response.json()["error"]["code"] == "invalid_metrics_token"
        assert client.get("/metrics", headers={"authorization": TOKEN}).status_code == 401
        scrape(client)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1"])
def test_this_machine_may_look_if_that_is_set(host: str) -> None:
    check_scraper(ServerConfig(metrics_loopback=True), host, "")
    with pytest.raises(MetricsClosed):
        check_scraper(ServerConfig(), host, "")


@pytest.mark.parametrize("host", ["10.0.0.1", "::ffff:10.0.0.1", "localhost", ""])
def test_other_machines_need_the_token_all_the_same(host: str) -> None:
    config = ServerConfig(metrics_loopback=True, metrics_token=SecretStr(TOKEN))
    with pytest.raises(MetricsTokenWrong):
        check_scraper(config, host, "Bearer another-token")
    check_scraper(config, host, f"bearer {TOKEN}")
    with pytest.raises(MetricsClosed):
        check_scraper(ServerConfig(metrics_loopback=True), host, f"Bearer {TOKEN}")


def test_without_its_database_a_process_tells_of_itself(
    client: TestClient, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise DatabaseUnavailable("Away.")

    monkeypatch.setattr(services.storage.jobs, "counts", away)
    samples = samples_of(generate_latest(services.metrics.registry).decode())
    assert value(samples, "lectern_database_up") == 0
    assert "lectern_documents" not in samples
    assert value(samples, "lectern_question_slots") == 1


def test_budgets_are_of_a_kind() -> None:
    assert budget_kind(0.15, 0.02) == "auto"
    assert [budget_kind(one) for one in (0.05, 0.15, 1.0, 0.2)] == [
        "fast", "balanced", "exact", "number",
    ]  # fmt: skip
