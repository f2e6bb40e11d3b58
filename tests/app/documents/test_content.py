"""What a document consists of, and what can be done to its reading."""

from uuid import uuid4

import pytest

from tests.app.seeding import TEXT


def test_the_text_is_what_spans_point_into(client, seeder):
    document_id = seeder.ready(client)
    body = client.get(f"/documents/{document_id}/text").json()
    assert body["text"] == TEXT
    assert (body["start_char"], body["end_char"], body["num_chars"]) == (0, len(TEXT), len(TEXT))
    part = client.get(f"/documents/{document_id}/text?start=10&end=25").json()
    assert part["text"] == TEXT[10:25]
    assert part["num_chars"] == len(TEXT)
    assert client.get(f"/documents/{document_id}/text?start=10&end=10").json()["text"] == ""


def test_a_page_is_a_span(client, seeder):
    document_id = seeder.ready(client)
    page = client.get(f"/documents/{document_id}/text?page=1").json()
    assert page["pages"][0] == {"number": 1, "start_char": 0, "end_char": len(TEXT)}
    assert page["text"] == TEXT


@pytest.mark.parametrize("query", ["page=2", "start=9&end=3", "page=1&start=0", "start=-1"])
def test_a_wrong_span_says_what_is_wrong(shared_app, query):
    reply = shared_app.client.get(f"/documents/{shared_app.document_id}/text?{query}")
    assert reply.status_code in (400, 422)
    assert reply.json()["error"]["param"] in ("page", "start")


def test_the_original_comes_back_byte_by_byte_and_cannot_act_as_a_page(client):
    data = b"<script>alert(1)</script> The gate is green."
    sent = client.post("/documents", files={"file": ("gate.html", data)}).json()
    reply = client.get(f"/documents/{sent['id']}/content")
    assert reply.content == data
    assert "attachment" in reply.headers["content-disposition"]
    assert "gate.html" in reply.headers["content-disposition"]
    assert "sandbox" in reply.headers["content-security-policy"]
    part = client.get(f"/documents/{sent['id']}/content", headers={"range": "bytes=0-7"})
    assert (part.status_code, part.content) == (206, data[:8])


@pytest.mark.parametrize("wanted", ["bytes=99999-", "bytes=9-3", "lines=1-2", "bytes"])
@pytest.mark.parametrize("path", ["/documents/{}/content", "/v1/files/{}/content"])
def test_a_range_that_the_original_does_not_have(shared_app, path, wanted):
    reply = shared_app.client.get(path.format(shared_app.document_id), headers={"range": wanted})
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (416, "range_not_satisfiable")


def test_a_document_that_is_not_read_has_no_text_yet(client):
    sent = client.post("/documents", files={"file": ("gate.txt", b"The gate is green.")}).json()
    reply = client.get(f"/documents/{sent['id']}/text")
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "document_not_ready")


def test_reading_is_cancelled_and_tried_again(client):
    sent = client.post("/documents", files={"file": ("gate.txt", b"The gate is green.")}).json()
    cancelled = client.post(f"/documents/{sent['id']}/cancel")
    assert cancelled.status_code == 202
    assert cancelled.json()["status"] == "failed"
    assert cancelled.json()["error"]["code"] == "cancelled"
    asked = client.post(f"/documents/{sent['id']}/ask", json={"question": "When?"})
    assert (asked.status_code, asked.json()["error"]["code"]) == (422, "document_failed")
    assert "cancelled" in asked.json()["error"]["message"]
    again = client.post(f"/documents/{sent['id']}/retry")
    assert (again.status_code, again.json()["status"]) == (202, "queued")
    assert again.headers["location"] == f"/documents/{sent['id']}"


def test_a_ready_document_is_neither_stopped_nor_read_again(client, seeder):
    document_id = seeder.ready(client)
    for action in ("cancel", "retry"):
        reply = client.post(f"/documents/{document_id}/{action}")
        assert (reply.status_code, reply.json()["status"]) == (202, "ready")


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "content"), ("GET", "text"), ("POST", "retry"), ("POST", "cancel")],
)
def test_another_tenants_document_is_not_there(shared_app, method, path):
    theirs = shared_app.seeder.headers("other_tenant")
    for foreign in (shared_app.document_id, uuid4(), "no-id"):
        reply = shared_app.client.request(method, f"/documents/{foreign}/{path}", headers=theirs)
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, "document_not_found")
