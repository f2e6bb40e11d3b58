"""Tasks are done in parallel processes, which fail and end with the one that started them."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from training.worker_pool import devices_for, run_tasks

ROOT = Path(__file__).parents[2]
ORPHAN = """
import multiprocessing as mp, os, sys, time
from training.worker_pool import _take

def work(waiting, pid):
    pid.put(os.getpid())
    for _ in _take(waiting):
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


def start(least, device):
    """Doubles what is large enough."""

    def work(number):
        if number < least:
            raise ValueError(f"{number} on {device}")
        return 2 * number

    return work


@pytest.mark.parametrize("workers", [1, 2])
def test_every_task_is_done_once(workers):
    done = run_tasks(range(5), partial(start, 0), devices_for("cpu", workers))
    assert sorted(done) == [(number, 2 * number) for number in range(5)]


def test_a_failing_process_fails_the_whole():
    with pytest.raises(RuntimeError, match="a worker process failed"):
        list(run_tasks(range(5), partial(start, 9), devices_for("cpu", 2)))


def test_gpus_are_taken_in_turn(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert devices_for("cuda", 3) == ["cuda:0", "cuda:1", "cuda:0"]


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
