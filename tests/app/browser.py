"""A real Chromium, spoken to over its debugging pipe."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.services import missing

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip


@contextmanager
def chromium(folder: Path) -> Iterator["Page"]:
    """Start Chromium with a profile of its own; skip without one, but not in CI."""
    program = shutil.which("chromium")
    if program is None:
        missing("Chromium")
    (read_in, write_in), (read_out, write_out) = os.pipe(), os.pipe()
    # Chromium reads commands from descriptor 3 and writes to 4.
    redirect = f'exec "$0" "$@" 3<&{read_in} 4>&{write_out}'
    command = ["bash", "-c", redirect, program, *FLAGS, f"--user-data-dir={folder}"]
    process = subprocess.Popen(
        command, pass_fds=(read_in, write_out), stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    os.close(read_in)
    os.close(write_out)
    try:
        with os.fdopen(write_in, "wb") as commands, os.fdopen(read_out, "rb") as replies:
            yield Page(commands, replies)
    finally:
        process.terminate()
        process.wait(20)


class Page:
    """One tab; `problems` collects console errors, broken rules of the CSP among them."""

    def __init__(self, commands: Any, replies: Any) -> None:
        self._commands, self._replies = commands, replies
        self._session: str | None = None
        self._last_id = 0
        self.problems: list[str] = []
        self._events: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its reply."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while (reply := self._next()).get("id") != self._last_id:
            pass
        assert "error" not in reply, reply
        result: dict[str, Any] = reply["result"]
        return result

    def wait_for(self, event: str) -> None:
        """Wait until the page has told of an event."""
        while event not in self._events:
            self._next()
        self._events.remove(event)

    def open(self, url: str) -> None:
        """Go to an address and wait until it is loaded."""
        self._events.clear()
        self.send("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")

    def run(self, script: str) -> Any:
        """Evaluate an expression in the page, promises included."""
        reply = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in reply, reply
        return reply["result"].get("value")

    def type(self, text: str) -> None:
        """Type into whatever has the focus."""
        self.send("Input.insertText", text=text)

    def press(self, key: str, code: int) -> None:
        """Press a key."""
        text = {"text": "\r"} if key == "Enter" else {}
        params = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", **params, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **params)

    def look(self, *, width: int, dark: bool) -> None:
        """Set the window's width and the colour scheme."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path: Path) -> None:
        """Take a picture of the whole page."""
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _next(self) -> dict[str, Any]:
        message = bytearray()
        while (byte := self._replies.read(1)) != b"\0":
            assert byte, "chromium ended"
            message += byte
        reply: dict[str, Any] = json.loads(message)
        self._note(reply)
        return reply

    def _note(self, reply: dict[str, Any]) -> None:
        method, params = reply.get("method", ""), reply.get("params", {})
        self._events.append(method)
        if method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(params["entry"]["text"])
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"]))
