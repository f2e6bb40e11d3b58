"""`lectern demo`, run as a user runs it, with the answers that a random model gives.

Its judgement of wrong answers is tested in tests/cli/test_demo.py, without a second server.
"""

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.flows.conftest import ROOT, START_S, STOP_S, LecternServer

TEXT = "The lamp of Varnholm burned twelve litres of oil a night.\n\n" * 40
QUESTIONS = [f"What is written on line {number}?" for number in range(6)]
DEMO = [sys.executable, "-m", "cli.main", "demo"]


@pytest.fixture(scope="module")
def given(shared_server: LecternServer, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the model answers, whatever that means."""
    path = tmp_path_factory.mktemp("handbook") / "asked-before-the-demo.md"
    path.write_text(TEXT)
    with shared_server.client() as client:
        document_id = client.upload_path(path)["id"]
        list(client.events(document_id))
        return [str(client.ask(document_id, one)["answer"]) for one in QUESTIONS]


def handbook(folder: Path, expected: list[str]) -> Path:
    """A handbook with its questions."""
    pairs = zip(QUESTIONS, expected, strict=True)
    questions = [{"question": question, "answer": answer} for question, answer in pairs]
    (folder / "handbook.md").write_text(TEXT)
    (folder / "questions.json").write_text(json.dumps(questions))
    return folder


def environment(tmp_path: Path, model: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "COLUMNS": "120",
        "LECTERN_MODEL": model,
        "LECTERN_DATA_DIR": str(tmp_path / "data"),
    }


def test_in_a_terminal_the_server_stays_and_the_printed_lines_work(
    given: list[str], tiny_model: str, tmp_path: Path
) -> None:
    folder = handbook(tmp_path, given)
    terminal, slave = pty.openpty()
    process = subprocess.Popen(
        [*DEMO, "--handbook", str(folder)],
        cwd=ROOT,
        env=environment(tmp_path, tiny_model),
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    stays = threading.Event()
    shown: list[str] = []
    watcher = threading.Thread(target=watch, args=(terminal, shown, stays))
    watcher.start()
    try:
        assert stays.wait(START_S), "".join(shown)
        text = "".join(shown).replace("\r\n", "\n")
        printed_python = line_of("Python", text)
        printed_curl = line_of("curl", text)
        answered = subprocess.run(
            shlex.split(printed_python), capture_output=True, text=True, timeout=60, check=True
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(STOP_S) == 0
    finally:
        process.kill()
        process.wait()
        watcher.join()
        os.close(terminal)
    assert "6 of 6 right" in text
    assert answered.stdout.strip("\n") == given[0].strip("\n")
    assert json.loads(shlex.split(printed_curl)[-1]) == {"question": QUESTIONS[0]}
    assert "What to do next" in text
    assert not (tmp_path / "data").exists()


def line_of(name: str, text: str) -> str:
    """What is printed to be copied."""
    return re.findall(rf"^{name}: (.*)$", text, re.MULTILINE)[0]


def watch(terminal: int, shown: list[str], stays: threading.Event) -> None:
    """Keep what appears, until the program ends."""
    while True:
        try:
            shown.append(os.read(terminal, 65536).decode(errors="replace"))
        except OSError:  # the other side is closed
            return
        if "The server keeps running" in "".join(shown):
            stays.set()
