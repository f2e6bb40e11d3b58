"""The examination's processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
ORPHAN = """
import multiprocessing as mp, os, sys, time
from training.board import _tasks

def work(waiting, pid):
    pid.put(os.getpid())
    for _ in _tasks(waiting):
        time.sleep(0.05)

if __name__ == "__main__":
    context = mp.get_context("spawn")
    waiting, pid = context.Queue(), context.Queue()
    for _ in range(2000):
        waiting.put(1)
    context.Process(target=work, args=(waiting, pid)).start()
    print(pid.get(), flush=True)
    time.sleep(600)
"""


def test_a_process_ends_soon_after_the_one_that_gives_it_tasks_was_killed(tmp_path):
    (tmp_path / "orphan.py").write_text(ORPHAN)
    with subprocess.Popen(
        [sys.executable, tmp_path / "orphan.py"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        assert is_running(child)
        parent.kill()
    deadline = time.monotonic() + 30  # its 2,000 tasks would take it 100 seconds
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.1)
    ended = not is_running(child)
    if not ended:
        os.kill(child, signal.SIGKILL)
    assert ended


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
