"""Memory and health checks while texts of 64 MiB of all kinds are uploaded and read.

python -m bench.faults.large_upload
"""

from argparse import Namespace
from typing import Any

from bench.faults.files import MIB, TEXTS
from bench.faults.probe import Probe, probing
from bench.faults.program import program
from bench.faults.server import Server, serving, weights_of
from training.record import circumstances

EVERY_S = 0.05
WARM_UP = b"The gate of the east wing closes at 18:40. " * 40


def measure(options: Namespace) -> dict[str, Any]:
    """Upload the texts one after the other to one server; each is refused, or read to its end."""
    num_bytes = 2 * MIB if options.smoke else 64 * MIB - 1024
    with serving(options.model) as server:
        caller = server.caller()
        caller.wait_until_read(caller.upload("gate.txt", WARM_UP).json()["id"])
        kinds = {kind: _upload(server, kind, num_bytes) for kind in TEXTS}
    return {
        "benchmark": "uploads of large texts",
        **circumstances("cpu", weights_of(options.model)),
        "file_bytes": num_bytes,
        "kinds": kinds,
        "largest_growth_mib": max(one["growth_mib"] for one in kinds.values()),
        "slowest_healthz_ms": max(one["healthz"]["max"] for one in kinds.values()),
        "answered": min(one["healthz"]["answered"] for one in kinds.values()),
    }


def _upload(server: Server, kind: str, num_bytes: int) -> dict[str, Any]:
    data, caller, checking = TEXTS[kind](num_bytes, 1), server.caller(), server.caller("")
    healthz = Probe(lambda: checking.call("GET", "/healthz"))
    before_bytes = server.memory.begin()
    with probing([healthz], EVERY_S):
        reply = caller.upload_patiently("large.txt", data)
        outcome = _code(reply.json())
        if reply.status == 202:
            outcome = _code(caller.wait_until_read(reply.json()["id"]))
    return {
        "status": reply.status,
        "outcome": outcome,
        "growth_mib": (server.memory.peak - before_bytes) / MIB,
        "healthz": healthz.summary(),
    }


def _code(body: dict[str, Any]) -> str:
    """Return the code of an error or of a failed document, or else the document's status."""
    error = body.get("error")
    return str(error["code"] if error else body["status"])


main = program("faults_large_upload", __doc__, measure)

if __name__ == "__main__":
    main()
