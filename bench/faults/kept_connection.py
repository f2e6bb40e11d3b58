"""Milliseconds of a health check and of a document's record on a kept connection.

python -m bench.faults.kept_connection
"""

from argparse import Namespace
from typing import Any

from bench.faults.probe import Probe, repeat
from bench.faults.program import program
from bench.faults.server import serving, weights_of
from training.record import circumstances

TEXT = b"The gate of the east wing closes at 18:40. " * 40


def measure(options: Namespace) -> dict[str, Any]:
    """Call an idle server; the first calls are not counted."""
    with serving(options.model) as server:
        caller = server.caller()
        document_id = caller.upload("gate.txt", TEXT).json()["id"]
        caller.wait_until_read(document_id)
        calls = {
            "healthz": lambda: caller.call("GET", "/healthz"),
            "document": lambda: caller.call("GET", f"/documents/{document_id}"),
        }
        repeat({name: Probe(call) for name, call in calls.items()}, 20)
        probes = {name: Probe(call) for name, call in calls.items()}
        repeat(probes, 50 if options.smoke else 1000)
    return {
        "benchmark": "kept connection, milliseconds",
        **circumstances("cpu", weights_of(options.model)),
        **{name: probe.summary() for name, probe in probes.items()},
    }


main = program("faults_kept_connection", __doc__, measure)

if __name__ == "__main__":
    main()
