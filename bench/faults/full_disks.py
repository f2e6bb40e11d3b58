"""Disks that are full while documents are uploaded, read and asked about, and have room later.

python -m bench.faults.full_disks          as root: it mounts a small file system of its own
"""

import http.client
import os
import random
import subprocess
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.faults.place import (
    QUESTION,
    answer,
    answers_in_peace,
    place,
    small_model,
    text_with_code,
    wait_for,
)
from bench.faults.program import program
from training.record import Weights, circumstances

DISK_MIB = 192
LEFT_BYTES = (0, 4096, 65_536, 262_144, 1 << 20, 3 << 20)
BLOCK_BYTES = 1 << 20
FULL_S = 4.0
NUM_BEFORE = 3  # documents that are uploaded before the disk is full, and then read
NUM_BYTES = 1_500
UNFINISHED = "SELECT count(*) FROM jobs WHERE status IN ('queued', 'running')"


def measure(options: Namespace) -> dict[str, Any]:
    """Run the program with a small model, unless another one is named."""
    with small_model(options.model) as (model, weights):
        return _measure(options, model, weights)


def _measure(options: Namespace, model: str, weights: Weights) -> dict[str, Any]:
    """Upload, fill the disk, upload and ask for some seconds, make room and wait; and so on."""
    num_disks = 2 if options.smoke else 20
    chance = random.Random(0)
    accepted: dict[int, str] = {}
    answers: list[tuple[int, str]] = []
    uploads, questions = Counter[str](), Counter[str]()
    waited_s: list[float] = []
    with _small_disk() as disk, place(model, disk / "data") as at:
        at.start("serve")
        at.wait_until_ready()
        at.watch_publications()
        caller = at.caller()

        def upload() -> None:
            number = len(accepted)
            reply = caller.upload(f"{number}.txt", text_with_code(number + 1, NUM_BYTES))
            uploads[_kind(reply.status, reply.body)] += 1
            if reply.status in (200, 202):
                accepted[number] = str(reply.json()["id"])

        def ask() -> None:
            number = chance.choice(list(accepted))
            reply = caller.ask(accepted[number], QUESTION)
            questions[_kind(reply.status, reply.body)] += 1
            if reply.status == 200:
                answers.append((number, str(reply.json()["answer"])))

        for round_number in range(num_disks):
            for _ in range(NUM_BEFORE):
                upload()
            with _filled(disk, LEFT_BYTES[round_number % len(LEFT_BYTES)]):
                until_s = time.monotonic() + FULL_S
                while time.monotonic() < until_s:
                    upload()
                    ask()
                    time.sleep(0.3)
            waited_s.append(wait_for(lambda: at.query(UNFINISHED)[0][0] == 0))
        at_the_end = {number: answer(caller, one) for number, one in accepted.items()}
        twice = at.published_twice()
    texts = {number: text_with_code(number + 1, NUM_BYTES) for number in accepted}
    expected = answers_in_peace(model, texts)
    answers += [(number, text) for number, text in at_the_end.items() if text is not None]
    return {
        "benchmark": "full disks",
        **circumstances("cpu", weights),
        "disks": num_disks,
        "uploads": dict(sorted(uploads.items())),
        "questions": dict(sorted(questions.items())),
        "documents": len(texts),
        "answers": len(answers),
        "different_answers": len(set(expected.values())),
        "lost": sum(text is None for text in at_the_end.values()),
        "wrong": sum(text != expected[number] for number, text in answers),
        "published_twice": twice,
        "longest_wait_s": max(waited_s),
    }


def _kind(status: int, body: bytes) -> str:
    if status < 400:
        return str(status)
    error = http.client.responses.get(status, "")
    return f"{status} {body.decode().partition('code')[2][3:40].partition(chr(34))[0] or error}"


@contextmanager
def _small_disk() -> Iterator[Path]:
    """Mount a file system of its own. Raises: SystemExit if this user may not."""
    with TemporaryDirectory(prefix="lectern-disk-") as name:
        size = f"size={DISK_MIB}m"
        mount = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", name]
        if subprocess.run(mount, check=False).returncode:
            raise SystemExit("This program mounts a file system, which takes root.")
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", "-l", name], check=True)


@contextmanager
def _filled(disk: Path, left_bytes: int) -> Iterator[None]:
    """Fill a file system but for some bytes while the block runs."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):  # others write, too
        while (num_bytes := _num_free(disk) - left_bytes) > 0:
            file.write(bytes(min(num_bytes, BLOCK_BYTES)))
    try:
        yield
    finally:
        ballast.unlink()


def _num_free(disk: Path) -> int:
    free = os.statvfs(disk)
    return free.f_bavail * free.f_frsize


main = program("faults_full_disks", __doc__, measure)

if __name__ == "__main__":
    main()
