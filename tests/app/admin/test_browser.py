"""The dashboard in a real browser: it logs in by keyboard, refreshes itself, and breaks no rule."""

import os
from pathlib import Path

import pytest

from app.services.services import Services
from tests.app.browser import Page, chromium
from tests.app.seeding import StorageSeeder

TAB, ENTER = ("Tab", 9), ("Enter", 13)
WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
WAIT = """new Promise((done) => {
  const look = () => document.body.innerText.includes(%r) ? done(true) : setTimeout(look, 50);
  look();
})"""


@pytest.fixture
def page(tmp_path: Path):
    """A browser tab."""
    with chromium(tmp_path / "profile") as page:
        yield page


def log_in(page: Page, address: str, password: str) -> None:
    page.open(f"{address}/admin")
    assert page.run("location.pathname") == "/admin/login"
    assert page.run("document.activeElement.id") == "password"
    page.type(password)
    page.press(*ENTER)
    page.wait_for("Page.loadEventFired")
    assert page.run("location.pathname") == "/admin"


def test_an_operator_watches_a_document_being_read(
    page: Page,
    address: str,
    password: str,
    services: Services,
    seeder: StorageSeeder,
    tmp_path: Path,
) -> None:
    log_in(page, address, password)
    assert "No documents yet" in page.run("document.body.innerText")

    document = seeder.add("Harbour handbook.md")
    assert page.run(WAIT % "Harbour handbook.md")
    job = services.storage.jobs.claim("test", 60.0)
    services.storage.jobs.progress(job, "prefill", 512, 2048)
    assert page.run(WAIT % "prefill, 512 of 2,048 tokens")
    assert page.run("document.querySelector('progress[aria-label^=Progress]').value") == 512

    shots = Path(os.environ.get("LECTERN_TEST_SHOTS", str(tmp_path)))
    for width in (1200, 400):
        for dark in (False, True):
            page.look(width=width, dark=dark)
            assert not page.run(WIDER), f"scrolls sideways at {width} px"
            colour = page.run("getComputedStyle(document.body).backgroundColor")
            assert (sum(map(int, colour[4:-1].split(","))) < 200) == dark
            page.screenshot(shots / f"admin-{width}-{'dark' if dark else 'light'}.png")

    page.run("document.activeElement.blur()")
    reached = []
    for _ in range(3):
        page.press(*TAB)
        reached.append(page.run("document.activeElement.innerText"))
    assert reached == ["Skip to the figures", "Pause", "Log out"]
    page.press(*ENTER)
    page.wait_for("Page.loadEventFired")
    assert page.run("location.pathname") == "/admin/login"
    assert page.problems == []
    assert services.storage.documents.find(document.id).status == "reading"


def test_a_page_that_cannot_refresh_says_so(
    page: Page, address: str, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(page, address, password)

    def broken(_: Services) -> None:
        raise RuntimeError("no figures")

    monkeypatch.setattr("app.admin.routes.collect_overview", broken)
    assert page.run(WAIT % "Not refreshing")
