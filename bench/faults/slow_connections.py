"""Requests with a key while 2,000 connections without one send theirs slowly, and the log's length.

python -m bench.faults.slow_connections --minutes 10
"""

import asyncio
import contextlib
import itertools
import multiprocessing
import resource
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench import RESULTS
from bench.faults.probe import Probe, probing
from bench.faults.server import Caller, serving, weights_of
from training.record import circumstances, write

TEXT = b"The gate of the east wing closes at 18:40. " * 40
STEP_S = 1.0  # between two bytes of a slow connection
EVERY_S = 0.2
HEADS = (
    b"GET /documents HTTP/1.1\r\nHost: x\r\nX-Slow: ",
    b"POST /admin/login HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\n\r\npassword=",
    b"POST /documents HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n"
    b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n",
    b"",
)


def main() -> None:
    """Run the flood, print and write the result."""
    parser = ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="", help="a model's folder; the bundled reader")
    parser.add_argument("--smoke", action="store_true", help="few and short, for a look")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    options = parser.parse_args()
    print(write("faults_slow_connections", measure(options), options.out).read_text())


def measure(options: Namespace) -> dict[str, Any]:
    """Call a server on new connections and on kept ones, all from the address of the flood."""
    num_connections, seconds = options.connections, 60 * options.minutes
    if options.smoke:
        num_connections, seconds = min(num_connections, 200), min(seconds, 10.0)
    with serving(options.model) as server:
        caller = server.caller()
        document_id = caller.upload("gate.txt", TEXT).json()["id"]
        caller.wait_until_read(document_id)
        path = f"/documents/{document_id}"
        asking = server.caller()

        def anew(path: str, key: str) -> Any:
            with contextlib.closing(Caller(server.url, key, timeout_s=60)) as fresh:
                return fresh.call("GET", path)

        probes = {
            "document, kept connection": Probe(lambda: caller.call("GET", path)),
            "document, new connection": Probe(lambda: anew(path, server.key)),
            "list, new connection": Probe(lambda: anew("/documents", server.key)),
            "ask": Probe(lambda: asking.ask(document_id, "When does the gate close?")),
        }
        healthz = Probe(lambda: anew("/healthz", ""))
        attack = multiprocessing.get_context("spawn").Process(
            target=flood, args=(server.url, num_connections), daemon=True
        )
        log_bytes = server.num_log_bytes()
        attack.start()
        with probing([*probes.values(), healthz], EVERY_S):
            time.sleep(seconds)
        attack.terminate()
        attack.join()
        log_bytes = server.num_log_bytes() - log_bytes
        peak_bytes = server.memory.peak
    answered = sum(len(probe.milliseconds) for probe in probes.values())
    failed = sum(len(probe.failures) for probe in probes.values())
    return {
        "benchmark": "slow connections without a key, milliseconds",
        **circumstances("cpu", weights_of(options.model)),
        "connections": num_connections,
        "minutes": seconds / 60,
        "answered_share": answered / (answered + failed),
        "calls": {name: probe.summary() for name, probe in probes.items()},
        "healthz": healthz.summary(),
        "log_mb": log_bytes / 1e6,
        "peak_gb": peak_bytes / 1e9,
    }


def flood(url: str, num_connections: int) -> None:
    """Hold slow connections until this process is ended; each that is closed is opened again."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(_flood(url, num_connections))


async def _flood(url: str, num_connections: int) -> None:
    address = urlsplit(url)
    heads = itertools.cycle(HEADS)
    await asyncio.gather(
        *(
            _hold(str(address.hostname), int(address.port or 80), head)
            for _, head in zip(range(num_connections), heads, strict=False)
        )
    )


async def _hold(host: str, port: int, head: bytes) -> None:
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(head)
                while not reader.at_eof():
                    writer.write(b"x")
                    await writer.drain()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(1000), STEP_S)
            finally:
                writer.close()
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    main()
