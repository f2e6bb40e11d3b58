"""Models with linear biases, from a folder of weights to an answer over HTTP."""

from pathlib import Path

import pytest

from tests.flows.conftest import MakeServer
from tests.models import ALIBI, byte_tokenizer, prose, random_model


@pytest.mark.parametrize("family", ["bloom", "mpt"])
def test_a_document_is_read_and_asked(make_server: MakeServer, tmp_path: Path, family: str) -> None:
    folder, text = tmp_path / "model", tmp_path / "text.txt"
    random_model(ALIBI[family], std=0.03).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    text.write_text(prose(1500))
    server = make_server(LECTERN_MODEL=str(folder), LECTERN_PRECOMPUTE__CHUNK_TOKENS="400")
    with server.client() as client:
        document_id = client.upload_path(text)["id"]
        assert list(client.events(document_id))[-1]["status"] == "ready"
        first, again = (client.ask(document_id, "Who?", max_tokens=4) for _ in range(2))
    # Heads whose scope is shorter than the document keep, and read, no more than it covers.
    assert 0.1 < first["budget"]["loaded"] < 0.9
    assert first["usage"]["document_tokens"] == 1501
    assert (again["answer"], again["cache_hit"]) == (first["answer"], True)
