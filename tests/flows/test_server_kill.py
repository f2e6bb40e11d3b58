"""A server killed in the middle of an answer: the caller can tell, and nothing else is lost."""

from pathlib import Path

import httpx

from tests.flows.conftest import LecternServer
from tests.models import prose


def test_a_stream_cut_off_by_a_kill_has_no_answer_at_its_end(
    tiny_server: LecternServer, tmp_path: Path
) -> None:
    server, text = tiny_server, tmp_path / "text.txt"
    text.write_text(prose(3000))
    with server.client() as client:
        document_id = client.upload_path(text)["id"]
        assert list(client.events(document_id))[-1]["status"] == "ready"
        before = client.document(document_id)
        assert before["tier"] == "device"
    received = ""
    body = {"question": "Who?", "budget": "exact", "max_tokens": 512, "stream": True}
    with httpx.stream(
        "POST",
        f"{server.url}/documents/{document_id}/ask",
        json=body,
        headers={"Authorization": f"Bearer {server.key}"},
        timeout=30,
        trust_env=False,
    ) as response:
        try:
            for part in response.iter_text():
                if not received:
                    server.kill()
                received += part
        except httpx.RemoteProtocolError:
            received += "(cut off)"
    assert "event: piece" in received
    assert "event: answer" not in received
    assert received.endswith("(cut off)")

    server.start()
    with server.client() as client:
        assert client.document(document_id) == {**before, "tier": "disk"}
        assert client.ask(document_id, "Who?", max_tokens=4)["finish_reason"] in ("stop", "length")
