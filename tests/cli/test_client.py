"""The HTTP client: what it sends, and what it makes of answers."""

import httpx
import pytest

from cli.client import Client, NoServer, Refused
from tests.cli.conftest import ID, FakeServer, answer, document, events, refusal


def test_the_key_goes_with_every_request(server: FakeServer) -> None:
    server.on("GET", f"/documents/{ID}", httpx.Response(200, json=document()))
    assert server.client().document(ID)["num_tokens"] == 13_010
    assert server.requests[0].headers["authorization"] == "Bearer lk_a_b"


def test_documents_are_fetched_page_by_page(server: FakeServer) -> None:
    pages = {
        None: {"data": [document(id="a"), document(id="b")], "has_more": True, "last_id": "b"},
        "b": {"data": [document(id="c")], "has_more": False, "last_id": "c"},
    }
    server.routes["GET", "/documents"] = lambda request: httpx.Response(
        200, json=pages[request.url.params.get("after")]
    )
    assert [one["id"] for one in server.client().documents()] == ["a", "b", "c"]


def test_options_that_were_not_given_are_not_sent(server: FakeServer) -> None:
    server.on("POST", f"/documents/{ID}/ask", httpx.Response(200, json=answer()))
    server.client().ask(ID, "Who?", budget="fast", seed=None)
    assert server.requests[0].read() == b'{"question":"Who?","budget":"fast"}'


def test_pieces_come_before_the_answer(server: FakeServer) -> None:
    frames = [("piece", {"text": "Odile"}), ("piece", {"text": " Brandt"}), ("answer", answer())]
    server.on("POST", f"/documents/{ID}/ask", events(*frames))
    assert list(server.client().ask_streaming(ID, "Who?")) == frames


def test_an_error_in_the_stream_is_a_refusal(server: FakeServer) -> None:
    broken = {"error": {"message": "The server is stopping.", "code": "shutting_down"}}
    server.on("GET", f"/documents/{ID}/events", events(("error", broken)))
    with pytest.raises(Refused, match="The server is stopping"):
        list(server.client().events(ID))
    frames = [("piece", {"text": "Odile"}), ("error", broken)]
    server.on("POST", f"/documents/{ID}/ask", events(*frames))
    answer_events = server.client().ask_streaming(ID, "Who?")
    assert next(answer_events) == frames[0]
    with pytest.raises(Refused, match="The server is stopping"):
        next(answer_events)


def test_the_servers_sentence_is_kept(server: FakeServer) -> None:
    server.on("GET", f"/documents/{ID}", refusal(404, "There is no such document."))
    with pytest.raises(Refused) as error:
        server.client().document(ID)
    assert error.value.message == "There is no such document."


def test_a_missing_key_comes_with_a_hint(server: FakeServer) -> None:
    server.on("GET", f"/documents/{ID}", refusal(401, "Send your API key."))
    with pytest.raises(Refused, match="Set LECTERN_API_KEY"):
        server.client().document(ID)


@pytest.mark.parametrize("body", ["<html>nginx</html>", "[1, 2]", "null"])
def test_another_program_at_the_address_is_told(body: str, server: FakeServer) -> None:
    server.on("GET", f"/documents/{ID}", httpx.Response(200, text=body))
    with pytest.raises(Refused, match="not a Lectern server"):
        server.client().document(ID)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (httpx.ConnectError("refused"), "No server answers at http://test"),
        (httpx.ReadTimeout("slow"), "did not answer in time"),
        (httpx.RemoteProtocolError("cut"), "broke off"),
    ],
)
def test_network_faults_become_sentences(fault: httpx.HTTPError, sentence: str) -> None:
    def fail(_request: httpx.Request) -> httpx.Response:
        raise fault

    with (
        Client("http://test", None, transport=httpx.MockTransport(fail)) as client,
        pytest.raises(NoServer, match=sentence),
    ):
        client.document(ID)


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://host", "http://", "http://a:b", ""])
def test_a_wrong_address_is_told(url: str) -> None:
    with pytest.raises(NoServer, match="is not the address of a server"):
        Client(url, None)
