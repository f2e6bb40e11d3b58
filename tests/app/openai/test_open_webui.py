"""What Open WebUI 0.12.4 sent to a server, sent again: it lists documents, asks, streams, titles.

`open_webui_requests.json` was recorded between the real package, with the settings that the README
names, and `lectern serve` with the bundled reader and its handbook.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.app.conftest import SharedApp

RECORDED = json.loads((Path(__file__).parent / "open_webui_requests.json").read_text())["requests"]
NAME = "handbook.md"


@pytest.fixture
def client(shared_app: SharedApp) -> TestClient:
    return shared_app.client


@pytest.fixture(scope="module")
def document_id(shared_app: SharedApp) -> str:
    """The handbook, and no other document."""
    shared_app.seeder.delete(shared_app.document_id)
    document = shared_app.seeder.add(NAME)
    shared_app.seeder.publish()
    return str(document.id)


def send(client: TestClient, request: dict[str, Any]) -> Any:
    """Send a request as it was, but for the random model's sake with a short answer."""
    body = request["body"] and {"max_tokens": 4} | request["body"]
    return client.request(request["method"], request["path"], json=body, headers=request["headers"])


@pytest.mark.parametrize("request_", RECORDED, ids=[one["what"] for one in RECORDED])
def test_it_is_answered(client: TestClient, document_id: str, request_: dict[str, Any]) -> None:
    answered = send(client, request_)
    body = request_["body"]
    if body is None:
        assert [one["id"] for one in answered.json()["data"]] == ["lectern", f"lectern/{NAME}"]
        return
    if "frequency_penalty" in body:
        error = answered.json()["error"]
        assert (answered.status_code, error["param"]) == (400, "frequency_penalty")
        return
    assert answered.status_code == 200, answered.text
    about = document_id if body["model"].endswith(NAME) else None
    if not body["stream"]:
        whole = answered.json()
        assert whole["document_id"] == about
        assert whole["choices"][0]["message"]["role"] == "assistant"
        assert whole["choices"][0]["finish_reason"] in ("stop", "length")
        return
    lines = [line for line in answered.text.split("\n\n") if line.startswith("data: ")]
    assert lines[-1] == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    wants_usage = body.get("stream_options", {}).get("include_usage", False)
    assert (chunks[-1]["choices"] == []) is wants_usage
