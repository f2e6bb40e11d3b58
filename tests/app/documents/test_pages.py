"""Pages of PDFs: where their words are, and their pictures."""

import struct

import pytest

from ingest.page_words import WORDS_FILE, PageWords, WordBox, pack_words
from tests.app.seeding import TEXT
from tests.ingest import samples

WORDS = (
    PageWords(1, 6120, 7920, (WordBox(0, 3, 721, 700, 900, 820), WordBox(4, 8, 920, 700, 99, 82))),
    PageWords(2, 6120, 7920, ()),
)  # fmt: skip


def upload(client, data=None):
    files = {"file": ("lights.pdf", data or samples.pdf())}
    return client.post("/documents", files=files).json()["id"]


def test_words_of_a_page_have_spans_and_boxes(client, seeder):
    document_id = upload(client)
    seeder.publish(extra={WORDS_FILE: pack_words(WORDS)})
    body = client.get(f"/documents/{document_id}/pages/1/words").json()
    assert (body["page"], body["width"], body["height"]) == (1, 612.0, 792.0)
    assert body["words"][0] == {
        "start_char": 0, "end_char": 3, "left": 72.1, "top": 70.0, "right": 90.0, "bottom": 82.0,
    }  # fmt: skip
    part = client.get(f"/documents/{document_id}/pages/1/words?start=4&end=5").json()
    assert [word["start_char"] for word in part["words"]] == [4]
    assert client.get(f"/documents/{document_id}/pages/2/words").json()["words"] == []
    missing = client.get(f"/documents/{document_id}/pages/3/words")
    assert (missing.status_code, missing.json()["error"]["param"]) == (400, "page")


def test_boxes_that_were_never_stored_are_no_empty_page(client, seeder):
    document_id = upload(client)
    seeder.publish()
    reply = client.get(f"/documents/{document_id}/pages/1/words")
    assert reply.status_code == 400
    assert "earlier version" in reply.json()["error"]["message"]


def test_a_page_is_drawn_in_the_width_that_is_asked_for(client):
    document_id = upload(client)
    reply = client.get(f"/documents/{document_id}/pages/2/image?width=306")
    assert reply.headers["content-type"] == "image/png"
    assert reply.content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", reply.content[16:24]) == (306, 396)


@pytest.mark.parametrize(
    ("query", "status", "param"),
    [("pages/3/image", 400, "page"), ("pages/0/image", 422, "page"),
     ("pages/1/image?width=5000", 422, "width"), ("pages/x/words", 422, "page")],
)  # fmt: skip
def test_what_cannot_be_drawn_says_why(client, query, status, param):
    reply = client.get(f"/documents/{upload(client)}/{query}")
    assert (reply.status_code, reply.json()["error"]["param"]) == (status, param)


@pytest.mark.parametrize("route", ["words", "image"])
def test_other_formats_have_no_pages_to_show(client, seeder, route):
    document_id = seeder.ready(client)
    reply = client.get(f"/documents/{document_id}/pages/1/{route}")
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "page")


def test_the_text_comes_with_its_blocks(client, seeder):
    document_id = seeder.ready(client)
    body = client.get(f"/documents/{document_id}/text").json()
    assert body["text_format"] == 2
    spans = [TEXT[one["start_char"] : one["end_char"]] for one in body["blocks"]]
    assert spans == [line.strip() for line in TEXT.splitlines() if line.strip()]
    assert {one["kind"] for one in body["blocks"]} == {"paragraph"}
