"""The bundled reader answers over HTTP, and shows where it looked."""

from pathlib import Path

import pytest

from cli.client import Client
from tests.flows.conftest import LecternServer, MakeServer
from tests.ingest import samples

PAGES = (
    ("The house stands on a cliff above the bay.", "Its windows look to the north."),
    ("The door code of the Harrow Store is 4471.", "The lamp was lit at dusk every day."),
    ("The boat is painted green.", "It is kept in the shed below the stairs."),
)
FILLER = (
    "Visitors come by the coast road in summer.",
    "In winter the road is often closed by snow.",
    "Bread is brought from the village twice a week.",
    "The garden behind the wall is sheltered from the wind.",
)


@pytest.fixture
def server(make_server: MakeServer) -> LecternServer:
    """A server without further settings, as a new user starts it."""
    return make_server()


def write_pdf(path: Path) -> Path:
    """Three pages; the code is on the second."""
    contents = [samples.pdf_lines(first, *FILLER * 8, second) for first, second in PAGES]
    path.write_bytes(samples.pdf_pages(contents))
    return path


def test_a_fact_is_found_with_its_page(server: LecternServer, tmp_path: Path) -> None:
    question = "What is the door code of the Harrow Store?"
    with server.client() as client:
        document_id = client.upload_path(write_pdf(tmp_path / "house.pdf"))["id"]
        assert list(client.events(document_id))[-1]["status"] == "ready"
        exact = client.ask(document_id, question, budget="exact")
        streamed = stream(client, document_id, question, budget="exact")
        balanced = client.ask(document_id, question)
    assert exact["answer"] == "4471"
    assert streamed == exact["answer"]
    for answer in (exact, balanced):
        found = [one for one in answer["evidence"] if "4471" in one["quote"]]
        assert [one["page"] for one in found] == [2]
    # The bundled reader is served with a head plan: `exact` reads all that the plan keeps.
    assert 0 < balanced["budget"]["loaded"] < exact["budget"]["loaded"] < 1


def stream(client: Client, document_id: str, question: str, budget: str) -> str:
    """The answer's pieces, joined."""
    frames = list(client.ask_streaming(document_id, question, budget=budget))
    assert [name for name, _ in frames].count("answer") == 1
    assert frames[-1][0] == "answer"
    return "".join(data["text"] for name, data in frames if name == "piece")
