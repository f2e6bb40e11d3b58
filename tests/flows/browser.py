"""A real Chromium, driven by Playwright: what is wrong with a page while it is used."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, sync_playwright

from tests.services import missing

AXE = Path(__file__).resolve().parents[1] / "vendor" / "axe.min.js"
FLAGS = ("--no-sandbox", "--disable-dev-shm-usage")
WIDTHS = {1280: 800, 400: 800}  # of the window, with its height
SERIOUS = ("serious", "critical")
WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
PICTURES = """() => [...document.images].every((image) => {
    const { top, bottom, width } = image.getBoundingClientRect();
    return image.complete || !width || bottom < 0 || top > innerHeight;
})"""
RUN_AXE = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
    .map((one) => ({id: one.id, impact: one.impact, help: one.help,
                    nodes: one.nodes.map((node) => node.html.slice(0, 200))}))"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Debian's Chromium; skip without one, but not in CI."""
    program = shutil.which("chromium")
    if program is None:
        missing("Chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page and all that is wrong with it.

    Attributes:
        problems: errors on the console, requests to other hosts, serious faults of accessibility.
        is_down: whether the server is down on purpose, so that failed requests are no problem.
    """

    def __init__(self, page: Page, shots: Path) -> None:
        self.page = page
        self.problems: list[str] = []
        self.is_down = False
        self._shots = shots
        page.on("console", lambda message: self._note(message.type == "error", message.text))
        page.on("pageerror", lambda error: self._note(True, str(error)))
        page.on("request", lambda request: self._note_request(request.url))

    def look(self, name: str) -> None:
        """Take pictures in both schemes at both widths; look for faults of accessibility."""
        page, before = self.page, self.page.viewport_size
        for width, height in WIDTHS.items():
            page.set_viewport_size({"width": width, "height": height})
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                page.wait_for_timeout(60)  # for what is drawn after a change of the scheme
                page.wait_for_function(PICTURES)
                page.screenshot(path=self._shots / f"{name}-{width}-{scheme}.png")
                assert not page.evaluate(WIDER), f"{name} scrolls sideways at {width} pixels"
                self._check_accessibility(f"{name}, {width}, {scheme}")
        page.emulate_media(color_scheme="light")
        if before is not None:
            page.set_viewport_size(before)

    def _check_accessibility(self, where: str) -> None:
        if not self.page.evaluate("typeof axe === 'object'"):
            # Added by the debugger, since the pages' own policy rightly forbids it.
            self.page.evaluate(AXE.read_text())
        found = [one for one in self.page.evaluate(RUN_AXE) if one["impact"] in SERIOUS]
        self.problems += [f"{where}: {one}" for one in found]

    def _note(self, is_problem: bool, text: str) -> None:
        is_expected = self.is_down and ("ERR_" in text or "Failed to load" in text)
        if is_problem and not is_expected:
            self.problems.append(text)

    def _note_request(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname != "127.0.0.1":
            self.problems.append(f"a request to {url}")


def shots_folder(otherwise: Path) -> Path:
    """The folder for pictures: `LECTERN_TEST_SHOTS`, or a temporary one."""
    folder = Path(os.environ.get("LECTERN_TEST_SHOTS", str(otherwise)))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
