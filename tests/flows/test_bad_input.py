"""What users send by mistake leads to a 4xx with code and message, or to a failed document."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.flows.conftest import CONTEXT, MAX_UPLOAD_BYTES, LecternServer
from tests.ingest import samples

UNKNOWN_ID = "956a3bc6-7794-4c8c-995d-00d07b0d8684"
Call = Callable[..., httpx.Response]


@pytest.fixture
def call(shared_server: LecternServer) -> Call:
    """Send a request with the key."""

    def send(method: str, path: str, **request: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {shared_server.key}", **request.pop("headers", {})}
        return httpx.request(
            method,
            f"{shared_server.url}{path}",
            headers=headers,
            timeout=60,
            trust_env=False,
            **request,
        )

    return send


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The error body, whole and readable."""
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"].endswith(".")
    assert "Traceback" not in response.text
    assert response.headers["x-request-id"]
    return error


@pytest.mark.parametrize(
    ("filename", "data", "status", "code"),
    [
        ("empty.txt", b"", 422, "empty_document"),
        ("blank.md", b" \n\n", 422, "empty_document"),
        ("binary.txt", bytes(range(256)) * 40, 415, "unsupported_type"),
        ("table.xlsx", b"hello", 415, "unsupported_type"),
        ("really-a-pdf.docx", samples.pdf(), 415, "unsupported_type"),
        ("locked.pdf", samples.encrypted_pdf("secret"), 422, "encrypted_pdf"),
        ("bomb.docx", samples.zip_bomb(30_000_000), 422, "archive_bomb"),
        ("bare.txt", "light ".encode("utf-16-le") * 50, 422, "unknown_encoding"),
    ],
)
def test_a_bad_file_is_refused_at_upload(
    filename: str, data: bytes, status: int, code: str, call: Call
) -> None:
    response = call("POST", "/documents", files={"file": (filename, data)})
    assert response.status_code == status
    assert error_of(response)["code"] == code
    names = [one["filename"] for one in call("GET", "/documents").json()["data"]]
    assert filename not in names


@pytest.mark.parametrize(
    ("filename", "data", "code"),
    [
        ("scan.pdf", samples.image_pdf(), "empty_document"),
        ("bomb.pdf", samples.pdf_bomb(8_000_000), "document_rejected"),
        ("long.txt", "w\u00f6\u00f6\u00f6 ".encode() * (CONTEXT // 6), "document_too_long"),
    ],
)
def test_a_file_whose_fault_shows_later_becomes_a_failed_document(
    filename: str, data: bytes, code: str, call: Call, shared_server: LecternServer
) -> None:
    response = call("POST", "/documents", files={"file": (filename, data)})
    assert response.status_code == 202
    document_id = response.json()["id"]
    with shared_server.client() as client:
        last = list(client.events(document_id))[-1]
    assert last["status"] == "failed"
    assert last["error"]["code"] == code
    asked = call("POST", f"/documents/{document_id}/ask", json={"question": "Who?"})
    assert asked.status_code == 422
    error = error_of(asked)
    assert error["code"] == "document_failed"
    assert last["error"]["message"] in error["message"]


def test_a_text_that_is_too_long_is_refused_at_upload_with_both_counts(call: Call) -> None:
    data = b"word " * (CONTEXT // 5 + 100)
    response = call("POST", "/documents", files={"file": ("l.txt", data)})
    assert response.status_code == 422
    error = error_of(response)
    assert error["code"] == "document_too_long"
    told = error["message"].replace(",", "")
    assert str(len(data)) in told
    assert str(CONTEXT - 257) in told, "but for the reserve, and the token before the document"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"question": ""}, 422, "empty_question"),
        ({"question": " \n"}, 422, "empty_question"),
        ({"question": "x" * 9_000}, 422, "question_too_long"),
        ({}, 422, "empty_question"),
        ({"question": 7}, 422, "invalid_request"),
        ({"question": "Who?", "budget": "huge"}, 422, "invalid_request"),
        ({"question": "Who?", "budget": 0}, 422, "invalid_request"),
        ({"question": "Who?", "max_tokens": 100_000}, 400, "invalid_input"),
        ({"question": "Who?", "colour": "red"}, 422, "invalid_request"),
    ],
)
def test_a_bad_question_is_refused(
    body: dict[str, Any], status: int, code: str, call: Call, ready_id: str
) -> None:
    response = call("POST", f"/documents/{ready_id}/ask", json=body)
    assert response.status_code == status
    assert error_of(response)["code"] == code


@pytest.fixture(scope="module")
def ready_id(shared_server: LecternServer) -> str:
    """A document that is ready."""
    with shared_server.client() as client:
        data = samples.SAMPLES["txt"][1]()
        made = httpx.post(
            f"{shared_server.url}/documents",
            headers={"Authorization": f"Bearer {shared_server.key}"},
            files={"file": ("lights.txt", data)},
            trust_env=False,
        ).json()
        list(client.events(made["id"]))
    return str(made["id"])


@pytest.mark.parametrize("document_id", [UNKNOWN_ID, "nonsense", "..%2f..%2fetc"])
def test_an_unknown_id_is_not_found(document_id: str, call: Call) -> None:
    for method, path in (("GET", ""), ("GET", "/events"), ("DELETE", ""), ("POST", "/ask")):
        body = {"json": {"question": "Who?"}} if method == "POST" else {}
        response = call(method, f"/documents/{document_id}{path}", **body)
        assert response.status_code == 404
        assert error_of(response)["code"] in ("document_not_found", "not_found")


@pytest.mark.parametrize("key", [None, "lk_wrong_key", "Bearer"])
def test_no_route_answers_without_a_key(key: str | None, shared_server: LecternServer) -> None:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    for path in ("/documents", f"/documents/{UNKNOWN_ID}", "/openapi.json"):
        response = httpx.get(f"{shared_server.url}{path}", headers=headers, trust_env=False)
        assert response.status_code == 401
        assert error_of(response)["code"] == "invalid_api_key"


def test_an_upload_over_the_limit_is_refused(call: Call) -> None:
    data = b"x" * (MAX_UPLOAD_BYTES + 1)
    response = call("POST", "/documents", files={"file": ("big.txt", data)})
    assert response.status_code == 413
    assert error_of(response)["code"] == "upload_too_large"


@pytest.mark.parametrize("kind", samples.SAMPLES)
def test_every_kind_of_file_is_read(kind: str, shared_server: LecternServer, call: Call) -> None:
    filename, make = samples.SAMPLES[kind]
    document = call("POST", "/documents", files={"file": (filename, make())}).json()
    with shared_server.client() as client:
        assert list(client.events(document["id"]))[-1]["status"] == "ready"
        pages = client.document(document["id"])["num_pages"]
    assert pages == (2 if kind == "pdf" else None), "only a PDF has pages"
