"""People's pages in a real browser, over a real server with the bundled reader.

The tests share one server and one browser, and follow each other: a document that one has uploaded
is what the next one looks at.
"""

import hashlib
import re
import socket
import textwrap
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from reader import HANDBOOK
from tests.flows.browser import AXE, Watched, chromium, shots_folder
from tests.flows.conftest import LecternServer
from tests.ingest.samples import pdf_lines, pdf_pages

QUESTION, ANSWER = "When does the night ferry to Gannet Rock cast off?", "22:25"
READING_MS = 120_000
LINES_OF_A_PAGE = 40
SCRIPT = re.compile(r"/documents[^/]*\.js")


def handbook_pdf() -> bytes:
    """Three pages of the handbook, the answer on the second."""
    text = (HANDBOOK / "handbook.md").read_text()
    at = text.index("The night ferry to Gannet Rock")
    lines = textwrap.wrap(text[max(0, at - 5000) : at + 3500].replace("—", "-"), 90)
    kept = [line.encode("cp1252", "ignore").decode("cp1252") for line in lines]
    escaped = [re.sub(r"([()\\])", r"\\\1", line) for line in kept]
    starts = range(0, min(len(escaped), 3 * LINES_OF_A_PAGE), LINES_OF_A_PAGE)
    return pdf_pages([pdf_lines(*escaped[at : at + LINES_OF_A_PAGE]) for at in starts])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LecternServer]:
    """A server with the bundled reader, on a port that it has again after a restart."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = LecternServer(tmp_path_factory.mktemp("browser"), {"LECTERN_SERVER__PORT": str(port)})
    try:
        server.start()
        yield server
    finally:
        server.end()


@pytest.fixture(scope="module")
def password(server: LecternServer) -> str:
    """The dashboard's password, which the server printed at its first start."""
    return re.findall(r"password, shown only now: (\S+)", "\n".join(server.lines))[0]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shots_folder(tmp_path_factory.mktemp("shots"))


@pytest.fixture
def watched(browser: Browser, shots: Path) -> Iterator[Watched]:
    """A page of a browser that has never been here; no test leaves a problem."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    watched = Watched(context.new_page(), shots)
    yield watched
    context.close()
    assert watched.problems == []


def log_in(page: Page, address: str, field: str, secret: str) -> None:
    page.goto(address)
    expect(page.locator(field)).to_be_focused()
    page.keyboard.type(secret)
    page.keyboard.press("Enter")


def open_room(page: Page, server: LecternServer) -> None:
    log_in(page, server.url, "#key", server.key)
    expect(page.locator("#list")).to_be_visible()


def open_document(page: Page, server: LecternServer, name: str) -> None:
    open_room(page, server)
    page.get_by_role("link", name=name).click()
    expect(page.locator(".sheet").first).to_be_visible()


def ask(page: Page, question: str) -> None:
    page.locator("#question").fill(question)
    page.locator("#question").press("Enter")


def test_a_pdf_from_its_upload_to_a_marked_answer(
    watched: Watched, server: LecternServer, tmp_path: Path
) -> None:
    page, file = watched.page, tmp_path / "harbour.pdf"
    file.write_bytes(handbook_pdf())
    page.goto(server.url)
    watched.look("login")
    open_room(page, server)
    watched.look("documents-empty")
    page.set_input_files("#files", file)
    row = page.locator(".document", has_text="harbour.pdf")
    expect(row).to_be_visible()
    row.get_by_role("link").click()
    expect(page.locator(".sheet").first).to_be_visible(timeout=READING_MS)
    watched.look("document")

    ask(page, QUESTION)
    turn = page.locator(".turn").last
    expect(turn.locator(".passages")).to_be_visible(timeout=30_000)
    expect(turn.locator(".answer")).to_contain_text(ANSWER)
    on_the_page = page.locator("[data-page='2'] mark.box")  # drawn around the words
    expect(on_the_page.first).to_be_in_viewport()
    expect(page.locator("#strip")).to_have_attribute("aria-label", re.compile(r"\d+ % at"))
    watched.look("answer")

    page.get_by_role("button", name="Text", exact=True).click()
    expect(page.locator("mark.quote, mark.evidence").filter(has_text=ANSWER).first).to_be_visible()
    watched.look("answer-as-text")
    page.locator(".passage").first.click()  # jumps to the passage, of which exactly that is marked
    quote = page.locator(".passage q").first.inner_text()
    shown = "".join(page.locator('mark[data-index="0"]').all_inner_texts())
    assert " ".join(shown.split()) == " ".join(quote.split())
    assert page.evaluate("document.activeElement.tagName") == "MARK"


def test_a_conversation_goes_on_is_there_again_and_can_be_taken_away(
    watched: Watched, server: LecternServer
) -> None:
    page = watched.page
    open_document(page, server, "harbour.pdf")
    expect(page.locator(".turn")).to_have_count(1)  # of the earlier conversation
    page.locator("[data-budget=exact]").click()
    expect(page.locator("#budget-effect")).to_contain_text("everything")
    page.locator("#quote").set_checked(False)
    ask(page, "And who does it not wait for?")
    expect(page.locator(".turn").last.locator(".effect")).to_be_visible(timeout=30_000)
    expect(page.locator(".turn")).to_have_count(2)
    watched.look("conversation")
    page.set_viewport_size({"width": 400, "height": 800})
    page.get_by_role("button", name="Conversation", exact=True).click()
    watched.look("conversation-narrow")
    page.set_viewport_size({"width": 1280, "height": 800})
    with page.expect_download() as download:
        page.locator("#export").click()
    exported = download.value.path().read_text()
    assert f"**{QUESTION}**" in exported
    assert re.search(r"\[1\]", exported)
    assert re.search(r"harbour\.pdf, page 2, characters \d+.\d+", exported)
    page.reload()
    expect(page.locator(".turn")).to_have_count(2)


def test_a_broken_pdf_says_what_is_wrong_and_how_to_go_on(
    watched: Watched, server: LecternServer, tmp_path: Path
) -> None:
    page = watched.page
    good = handbook_pdf()
    broken, locked = tmp_path / "broken.pdf", tmp_path / "unknown.bin"
    broken.write_bytes(good[:300] + b"\0" * 40)
    locked.write_bytes(bytes(range(256)) * 4)
    held: list[Route] = []  # the page's script comes after the files are chosen
    page.route(SCRIPT, lambda route: held.append(route))
    with page.expect_request(SCRIPT):
        open_room(page, server)
    watched.is_down = True  # a refused upload is a failed request
    page.set_input_files("#files", [broken, locked])
    held.pop().continue_()
    refused = page.locator(".upload.failed")
    expect(refused.first).to_be_visible()
    failed = page.locator(".document", has_text="broken.pdf")
    expect(
        failed.locator(".reason").or_(refused.filter(has_text="broken.pdf")).first
    ).to_be_visible(timeout=READING_MS)
    watched.look("broken")
    if failed.count():
        failed.get_by_role("link").click()
        expect(page.get_by_role("button", name="Read again")).to_be_visible()
        watched.look("failed-document")


def test_an_operator_pins_retries_and_revokes(
    watched: Watched, browser: Browser, server: LecternServer, password: str
) -> None:
    page = watched.page
    log_in(page, f"{server.url}/admin", "#password", password)
    expect(page.locator("[data-words=answers]")).to_contain_text("answers,")
    expect(page.locator("#by-kind")).to_contain_text("balanced")
    watched.look("admin-overview")
    page.get_by_role("link", name="Documents").click()
    row = page.locator("tr", has_text="harbour.pdf")
    row.locator("summary").click()
    watched.look("admin-actions")
    row.get_by_role("button", name="Pin", exact=True).click()
    expect(page.get_by_text("The document is pinned.")).to_be_visible()
    page.get_by_role("link", name="harbour.pdf").click()
    expect(page.locator(".chart canvas").first).to_be_visible()
    watched.look("admin-document")
    page.get_by_role("link", name="Model").click()
    watched.look("admin-model")

    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, trust_env=False) as client:
        file = {"file": ("cancelled.txt", b"A document that nobody reads. " * 4000)}
        document_id = client.post("/documents", files=file).json()["id"]
        client.post(f"/documents/{document_id}/cancel").raise_for_status()
    page.get_by_role("link", name="Overview").click()
    failure = page.locator("tr", has_text="cancelled.txt")
    failure.locator("summary", has_text="Retry").click()
    failure.get_by_role("button", name="Retry").click()
    expect(page.get_by_text("The document is queued again.")).to_be_visible()

    page.get_by_role("link", name="Tenants").click()
    page.get_by_role("link", name="default").click()
    page.get_by_label("What it is for").fill("for a visit")
    page.get_by_role("button", name="Make the key").click()
    key = page.locator("#made-key").inner_text()
    watched.look("admin-tenant")
    visit = browser.new_context()
    visitor = visit.new_page()
    log_in(visitor, server.url, "#key", key)
    expect(visitor.locator("#list")).to_be_visible()
    row = page.locator("tr", has_text="for a visit")
    row.locator("summary").click()
    row.get_by_role("button", name="Revoke this key").click()
    expect(page.get_by_text("The key is revoked")).to_be_visible()
    visitor.reload()
    expect(visitor.locator("#key")).to_be_visible()
    visit.close()


def test_open_pages_outlive_a_restart_of_the_server(
    watched: Watched, browser: Browser, server: LecternServer, password: str
) -> None:
    page = watched.page
    open_document(page, server, "harbour.pdf")
    context = browser.new_context()
    admin = context.new_page()
    log_in(admin, f"{server.url}/admin", "#password", password)
    expect(admin.locator("#now")).to_be_visible()
    watched.is_down = True
    server.stop()
    ask(page, QUESTION)
    expect(page.locator(".turn .problem")).to_contain_text("does not answer")
    expect(admin.locator(".stale")).to_be_visible(timeout=20_000)  # it asks every two seconds
    watched.look("server-down")
    server.start()
    page.get_by_role("button", name="Ask again").click()
    expect(page.locator(".turn").last.locator(".answer")).to_contain_text(ANSWER, timeout=60_000)
    expect(admin.locator("#password")).to_be_visible()  # whose sessions end with the server
    context.close()


def test_the_vendored_checker_is_the_published_one() -> None:
    notice = (AXE.parent / "NOTICE.md").read_text()
    assert hashlib.sha256(AXE.read_bytes()).hexdigest() in notice
