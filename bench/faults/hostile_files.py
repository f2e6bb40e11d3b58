"""Three hundred hostile files of one key, and how long another key's small documents wait.

python -m bench.faults.hostile_files
"""

import threading
import time
from argparse import Namespace
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.faults.files import hostile_files, words
from bench.faults.program import program
from bench.faults.server import Caller, Server, serving, weights_of
from training.record import circumstances, percentiles

DEADLINE_S = 1800.0  # for a document whose own deadline is not told
SMALL_BYTES = 2_000
EVERY_S = 10.0


def measure(options: Namespace) -> dict[str, Any]:
    """Upload the files, eight at a time, and small documents beside them until all are done."""
    count = 12 if options.smoke else 300
    with serving(options.model) as server:
        other = server.make_key("somebody else")
        _read_small(server.caller(other), -1)  # the first document warms the worker up
        done, waited_s = threading.Event(), list[float]()
        watching = threading.Thread(target=_send_small, args=(server, other, done, waited_s))
        watching.start()
        with ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(lambda file: _send(server, *file), hostile_files(count)))
        done.set()
        watching.join()
        peak_bytes = server.memory.peak
    late = [outcome for outcome in outcomes if not outcome["in_time"]]
    return {
        "benchmark": "hostile files",
        **circumstances("cpu", weights_of(options.model)),
        "files": count,
        "outcomes": dict(sorted(Counter(one["outcome"] for one in outcomes).items())),
        "in_time": count - len(late),
        "late": late,
        "small_documents_s": percentiles(waited_s),
        "longest_wait_s": max(waited_s),
        "peak_gb": peak_bytes / 1e9,
    }


def _send(server: Server, name: str, data: bytes) -> dict[str, Any]:
    """Upload a file and wait until it is ready or has failed, or was refused."""
    caller, started_s = server.caller(), time.monotonic()
    reply = caller.upload_patiently(name, data, timeout_s=4 * DEADLINE_S)
    outcome, in_time = f"refused: {reply.status}", reply.status < 500 and reply.status != 429
    if reply.status == 202:
        try:
            document = caller.wait_until_read(reply.json()["id"], timeout_s=DEADLINE_S)
            outcome = document["error"]["code"] if document["error"] else document["status"]
        except TimeoutError:
            outcome, in_time = "not done", False
    return {
        "name": name,
        "outcome": outcome,
        "in_time": in_time,
        "seconds": round(time.monotonic() - started_s, 1),
    }


def _send_small(server: Server, key: str, done: threading.Event, waited_s: list[float]) -> None:
    """Send a small document now and then, and note how long each took to be ready."""
    number = 0
    while not done.is_set():
        started_s = time.monotonic()
        _read_small(server.caller(key), number)
        waited_s.append(time.monotonic() - started_s)
        number += 1
        done.wait(max(0.0, EVERY_S - waited_s[-1]))


def _read_small(caller: Caller, number: int) -> None:
    reply = caller.upload_patiently(f"small-{number}.txt", words(SMALL_BYTES, number).encode())
    document = caller.wait_until_read(reply.json()["id"])
    if document["status"] != "ready":
        raise SystemExit(f"A small document has failed: {document['error']}")


main = program("faults_hostile_files", __doc__, measure)

if __name__ == "__main__":
    main()
