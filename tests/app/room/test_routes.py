"""Pages of the reading room: the list, a document's text in parts, and earlier conversations."""

import re

from starlette.testclient import TestClient

from tests.app.room.conftest import ORIGIN, csrf_of
from tests.app.seeding import TEXT, StorageSeeder

ASK = {"question": "When?", "max_tokens": 2, "keep": True, "attention": True}


def headers_of(reader: TestClient) -> dict[str, str]:
    return ORIGIN | {"x-csrf-token": csrf_of(reader.get("/").text)}


def upload(reader: TestClient) -> str:
    file = {"file": ("a.txt", TEXT.encode())}
    return str(reader.post("/documents", files=file, headers=headers_of(reader)).json()["id"])


def ready(reader: TestClient, seeder: StorageSeeder) -> str:
    document_id = upload(reader)
    seeder.publish()
    return document_id


def test_the_list_is_searched_and_limited_to_a_state(
    reader: TestClient, seeder: StorageSeeder
) -> None:
    headers = headers_of(reader)
    for name in ("Harbour 100%.md", "harbour_b.md", "Other.md"):
        reader.post("/documents", files={"file": (name, name.encode())}, headers=headers)
    found = lambda query: set(re.findall(r'class="name"[^>]*>([^<]+)<', reader.get(query).text))  # noqa: E731
    assert found("/?search=HARBOUR") == {"Harbour 100%.md", "harbour_b.md"}
    assert found("/?search=100%25") == {"Harbour 100%.md"}
    assert found("/?state=ready") == set()
    seeder.fail("broken", "It is damaged.")
    assert len(found("/?state=failed")) == 1
    assert len(found("/?state=reading")) == 2
    assert "No document matches" in reader.get("/?search=nothing").text


def test_a_documents_page_has_its_text_and_its_parts_follow(
    reader: TestClient, seeder: StorageSeeder
) -> None:
    document_id = ready(reader, seeder)
    page = reader.get(f"/room/{document_id}")
    assert TEXT[:40] in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", page.text)
    assert TEXT[:40] in reader.get(f"/room/{document_id}/parts/0").text
    beyond = reader.get(f"/room/{document_id}/parts/9", headers={"x-part": "true"})
    assert (beyond.status_code, "no such part" in beyond.text) == (400, True)


def test_a_failed_document_says_why_and_how_to_go_on(
    reader: TestClient, seeder: StorageSeeder
) -> None:
    document_id = upload(reader)
    seeder.fail("encrypted_pdf", "The PDF asks for a password.")
    page = reader.get(f"/room/{document_id}").text
    assert "The PDF asks for a password." in page
    assert "Read again" in page
    assert TEXT[:40] in page  # whatever of its text can be read


def test_an_answer_is_kept_whole_for_its_documents_history(
    reader: TestClient, seeder: StorageSeeder
) -> None:
    document_id, headers = ready(reader, seeder), headers_of(reader)
    address = f"/documents/{document_id}/ask"
    first = reader.post(address, json=ASK, headers=headers).json()
    follow = ASK | {"question": "Why?", "previous_answer_id": first["answer_id"]}
    second = reader.post(address, json=follow, headers=headers).json()
    other = reader.post(address, json=ASK, headers=headers).json()
    assert len(first["attention"]) == 256
    assert abs(sum(first["attention"]) - 1) < 0.01
    history = reader.get(f"/room/{document_id}/history").json()
    assert history["cost"] is None  # three answers tell nothing about other budgets
    assert [[turn["body"] for turn in one["turns"]] for one in history["conversations"]] == [
        [other],
        [first, second],
    ]


def test_pages_of_other_tenants_are_not_found(reader: TestClient, seeder: StorageSeeder) -> None:
    other = seeder.headers("other")
    file = {"file": ("theirs.txt", b"Theirs alone.")}
    document_id = reader.post("/documents", files=file, headers=other).json()["id"]
    seeder.publish()
    for path in ("", "/parts/0", "/history"):
        response = reader.get(f"/room/{document_id}{path}")
        assert response.status_code == 404
        assert "theirs" not in response.text
