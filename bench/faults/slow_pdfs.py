"""How readyz, list and ask stay while fifty slow PDFs are being uploaded, and the server's memory.

python -m bench.faults.slow_pdfs
"""

import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.faults.files import slow_pdf
from bench.faults.probe import Probe, probing
from bench.faults.program import program
from bench.faults.server import Reply, Server, serving, weights_of
from training.record import circumstances

TEXT = b"The gate of the east wing closes at 18:40. " * 40
EVERY_S = 0.5
KINDS = ("readyz", "list", "ask")


def measure(options: Namespace) -> dict[str, Any]:
    """Call a quiet server, then one that gets slow PDFs, all of one key, which tries again."""
    num_files, sections, quiet_s = (8, 2_000, 5) if options.smoke else (50, 40_000, 60)
    with serving(options.model) as server:
        caller = server.caller()
        document_id = caller.upload("gate.txt", TEXT).json()["id"]
        caller.wait_until_read(document_id)
        caller.ask(document_id, "When?")
        quiet = _probes(server, document_id)
        with probing(list(quiet.values()), EVERY_S):
            time.sleep(quiet_s)
        server.memory.begin()
        under_load = _probes(server, document_id)
        with probing(list(under_load.values()), EVERY_S):
            statuses = _upload_all(server, num_files, sections)
        peak_bytes = server.memory.peak
    ratios = {
        kind: under_load[kind].summary()["p50"] / quiet[kind].summary()["p50"] for kind in KINDS
    }
    return {
        "benchmark": "slow PDFs being uploaded, milliseconds",
        **circumstances("cpu", weights_of(options.model)),
        "files": num_files,
        "file_bytes": len(slow_pdf(sections, 0)),
        "upload_statuses": statuses,
        "quiet": {kind: quiet[kind].summary() for kind in KINDS},
        "under_load": {kind: under_load[kind].summary() for kind in KINDS},
        "ratio_p50": ratios,
        "largest_ratio": max(ratios.values()),
        "answered": min(under_load[kind].answered_share for kind in KINDS),
        "peak_gb": peak_bytes / 1e9,
    }


def _probes(server: Server, document_id: str) -> dict[str, Probe]:
    calls: dict[str, Callable[[], Reply]] = {}
    for kind, path in (("readyz", "/readyz"), ("list", "/documents")):
        caller = server.caller()
        calls[kind] = lambda caller=caller, path=path: caller.call("GET", path)  # type: ignore[misc]
    asking = server.caller()
    calls["ask"] = lambda: asking.ask(document_id, "When does the gate close?")
    return {kind: Probe(calls[kind]) for kind in KINDS}


def _upload_all(server: Server, num_files: int, sections: int) -> dict[str, int]:
    """Upload all files at once, and count what each was answered with at last."""

    def upload(number: int) -> int:
        caller = server.caller()
        return caller.upload_patiently(f"slow-{number}.pdf", slow_pdf(sections, number)).status

    with ThreadPoolExecutor(num_files) as pool:
        return {str(status): n for status, n in Counter(pool.map(upload, range(num_files))).items()}


main = program("faults_slow_pdfs", __doc__, measure)

if __name__ == "__main__":
    main()
