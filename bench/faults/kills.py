"""Workers and servers killed in the middle of their work, again and again: what is lost or wrong.

python -m bench.faults.kills
"""

import http.client
import random
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from typing import Any

import psutil

from bench.faults.place import (
    QUESTION,
    Place,
    answer,
    answers_in_peace,
    place,
    small_model,
    text_with_code,
    wait_for,
)
from bench.faults.program import program
from common.status import Phase
from training.record import Weights, circumstances

MAX_UNFINISHED = 6  # documents that wait or are being read
SIZES = (1_000, 5_000, 20_000, 60_000)
SETTINGS = {
    "LECTERN_WORKER__MAX_ATTEMPTS": "100000",  # no document is to blame for a kill
    "LECTERN_WORKER__DEADLINE_BASE_S": "3600",  # nor for a machine that is busy otherwise
}
PUBLISHING_SHARE = 0.3  # of the kills, which wait for a document that is being published
PUBLISHING_S = 20.0  # or no longer
FINISHING_SHARE = 0.2  # of the kills, which wait until one more document has been read
FINISHING_S = 60.0  # or no longer
RUNNING = "SELECT lease_owner, id, phase FROM jobs WHERE status = 'running'"
DONE = "SELECT count(*) FROM jobs WHERE status = 'done'"
UNFINISHED = "SELECT count(*) FROM jobs WHERE status IN ('queued', 'running')"
LOST_CONNECTION = (OSError, http.client.HTTPException)


@dataclass
class Ledger:
    """What the server has said so far.

    Attributes:
        accepted: ids of the documents whose upload was acknowledged, by number.
        answers: number of a document, and what an answer about it said.
        statuses: how often each other status was the answer to a question.
    """

    accepted: dict[int, str] = field(default_factory=dict)
    answers: list[tuple[int, str]] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)


def measure(options: Namespace) -> dict[str, Any]:
    """Run the program with a small model, unless another one is named."""
    with small_model(options.model) as (model, weights):
        return _measure(options, model, weights)


def _measure(options: Namespace, model: str, weights: Weights) -> dict[str, Any]:
    """Kill workers of a server without one, then servers with a worker, and look what is left."""
    num_workers, num_servers = (6, 3) if options.smoke else (200, 40)
    started_s = time.monotonic()
    workers = _storm(model, kill_workers, num_workers, {"LECTERN_SERVER__EMBEDDED_WORKER": "0"})
    servers = _storm(model, kill_servers, num_servers, {})
    return {
        "benchmark": "kills -9 in the middle of work",
        **circumstances("cpu", weights),
        "minutes": (time.monotonic() - started_s) / 60,
        "workers": workers,
        "servers": servers,
        **{
            name: workers[name] + servers[name]
            for name in ("kills", "interrupted_jobs", "lost", "wrong", "published_twice")
        },
        "resumed_s": max(workers["resumed_s"], servers["resumed_s"]),
        "ready_s": max(workers["ready_s"], servers["ready_s"]),
        "load_average": psutil.getloadavg()[0],
    }


def _storm(model: str, kill: Any, num_kills: int, settings: dict[str, str]) -> dict[str, Any]:
    ledger = Ledger()
    with place(model, settings={**SETTINGS, **settings}) as at:
        resumed_s, ready_s = kill(at, num_kills, ledger)
        wait_for(lambda: at.query(UNFINISHED)[0][0] == 0)
        caller = at.caller()
        at_the_end = {
            number: answer(caller, document_id) for number, document_id in ledger.accepted.items()
        }
        twice = at.published_twice()
        crashes = at.query("SELECT sum(crashes) FROM jobs")[0][0]
    texts = {number: document(number) for number in ledger.accepted}
    expected = answers_in_peace(model, texts)
    given = [*ledger.answers, *((n, text) for n, text in at_the_end.items() if text is not None)]
    return {
        "kills": num_kills,
        "interrupted_jobs": crashes,
        "documents": len(texts),
        "answers": len(given),
        "other_statuses": ledger.statuses,
        "lost": sum(text is None for text in at_the_end.values()),
        "wrong": sum(text != expected[number] for number, text in given),
        "different_answers": len(set(expected.values())),
        "published_twice": twice,
        "resumed_s": resumed_s,
        "ready_s": ready_s,
    }


def document(number: int) -> bytes:
    """Return the text of a document."""
    return text_with_code(number + 1, SIZES[number % len(SIZES)])


def kill_workers(at: Place, num_kills: int, ledger: Ledger) -> tuple[float, float]:
    """Kill one of two workers while it reads, and start another one, again and again.

    Returns: seconds from the last kill until the work that it interrupted was being done again,
        and until it was done.
    """
    chance = random.Random(1)
    at.start("serve")
    workers = [at.start("worker") for _ in range(2)]
    at.wait_until_ready()
    at.watch_publications()
    jobs: list[str] = []
    with _uploading(at, ledger):
        for _ in range(num_kills):
            victim, jobs = _wait_for_busy(at, workers, chance)
            at.kill(victim)
            killed_s = time.monotonic()
            workers[workers.index(victim)] = at.start("worker")
    return _resumption(at, jobs, str(victim.pid), killed_s)


def kill_servers(at: Place, num_kills: int, ledger: Ledger) -> tuple[float, float]:
    """Kill a server while it reads, takes uploads and answers, and start it again and again.

    Returns: see `kill_workers`.
    """
    chance = random.Random(2)
    server = at.start("serve")
    at.wait_until_ready()
    at.watch_publications()
    jobs: list[str] = []
    with _uploading(at, ledger), _asking(at, ledger):
        for _ in range(num_kills):
            at.wait_until_ready()
            server, jobs = _wait_for_busy(at, [server], chance)
            pid = str(server.pid)
            at.kill(server)
            killed_s = time.monotonic()
            server = at.start("serve")
    at.wait_until_ready()
    return _resumption(at, jobs, pid, killed_s)


def _wait_for_busy(
    at: Place, processes: list[ForkServerProcess], chance: random.Random
) -> tuple[ForkServerProcess, list[str]]:
    """Wait until some process has been reading for a moment of random length, or publishes.

    Now and then a document may be finished before, however slow the machine is.

    Returns: the process, and the jobs that it has.
    """
    if chance.random() < FINISHING_SHARE:
        done = at.query(DONE)[0][0]
        with suppress(TimeoutError):
            wait_for(lambda: at.query(DONE)[0][0] > done, FINISHING_S)
    if chance.random() < PUBLISHING_SHARE:
        with suppress(TimeoutError):
            found: list[ForkServerProcess] = []
            wait_for(lambda: _publishing(at, processes, found), PUBLISHING_S, every_s=0.01)
            if jobs := _jobs_of(at, found[0]):
                return found[0], jobs
    while True:
        process = chance.choice(processes)
        wait_for(lambda: any(_jobs_of(at, one) for one in processes))
        time.sleep(chance.uniform(0.0, 2.0))
        if jobs := _jobs_of(at, process):
            return process, jobs


def _publishing(
    at: Place, processes: list[ForkServerProcess], found: list[ForkServerProcess]
) -> bool:
    """Whether some process publishes a document; it is added to `found`."""
    owners = [owner for owner, _, phase in at.query(RUNNING) if phase == Phase.PACK]
    found += [one for one in processes if any(f"_{one.pid}_" in owner for owner in owners)]
    return bool(found)


def _jobs_of(at: Place, process: ForkServerProcess) -> list[str]:
    mark = f"_{process.pid}_"
    return [job for owner, job, _ in at.query(RUNNING) if mark in owner]


def _resumption(at: Place, jobs: list[str], pid: str, killed_s: float) -> tuple[float, float]:
    def states() -> list[tuple[str, str]]:
        marks = ", ".join("?" * len(jobs))
        wanted = f"SELECT status, coalesce(lease_owner, '') FROM jobs WHERE id IN ({marks})"
        return at.query(wanted, *jobs)

    def is_begun(status: str, owner: str) -> bool:
        return status == "done" or (status == "running" and f"_{pid}_" not in owner)

    wait_for(lambda: all(is_begun(*state) for state in states()))
    resumed_s = time.monotonic() - killed_s
    wait_for(lambda: all(status == "done" for status, _ in states()))
    return resumed_s, time.monotonic() - killed_s


@contextmanager
def _uploading(at: Place, ledger: Ledger) -> Iterator[None]:
    """Upload documents on a thread, as many as get read; each until it is acknowledged."""

    def upload(number: int) -> None:
        with suppress(*LOST_CONNECTION):
            reply = at.caller().upload(f"{number}.txt", document(number))
            if reply.status in (200, 202):
                ledger.accepted[number] = str(reply.json()["id"])

    def run() -> None:
        number = 0
        while not stop.is_set():
            if at.query(UNFINISHED)[0][0] < MAX_UNFINISHED:
                upload(number)
                number += number in ledger.accepted
            stop.wait(0.1)

    stop = threading.Event()
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def _asking(at: Place, ledger: Ledger) -> Iterator[None]:
    """Ask about documents that were accepted, on a thread, and note what is answered."""
    chance = random.Random(3)

    def ask() -> None:
        number = chance.choice(list(ledger.accepted))
        with suppress(*LOST_CONNECTION):
            reply = at.caller().ask(ledger.accepted[number], QUESTION)
            if reply.status == 200:
                ledger.answers.append((number, str(reply.json()["answer"])))
            else:
                kind = f"{reply.status} {reply.json()['error']['code']}"
                ledger.statuses[kind] = ledger.statuses.get(kind, 0) + 1

    def run() -> None:
        while not stop.wait(0.1):
            if ledger.accepted:
                ask()

    stop = threading.Event()
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


main = program("faults_kills", __doc__, measure)

if __name__ == "__main__":
    main()
