"""Milliseconds of a health check and of a document's record on a kept connection.

python -m bench.faults.kept_connection

Beside each of them a server that does nothing is called, which tells how busy the machine is.
"""

import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.faults.probe import Probe, repeat
from bench.faults.program import program
from bench.faults.server import Caller, serving, weights_of
from training.record import circumstances

TEXT = b"The gate of the east wing closes at 18:40. " * 40
BARE_SERVER = """
import asyncio

REPLY = b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n{}"

async def answer(reader, writer):
    while await reader.readuntil(b"\\r\\n\\r\\n"):
        writer.write(REPLY)

async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


def measure(options: Namespace) -> dict[str, Any]:
    """Call an idle server and one that does nothing, in turn; the first calls are not counted."""
    with serving(options.model) as server, _bare_server() as bare:
        caller = server.caller()
        document_id = caller.upload("gate.txt", TEXT).json()["id"]
        caller.wait_until_read(document_id)
        calls = {
            "healthz": lambda: caller.call("GET", "/healthz"),
            "document": lambda: caller.call("GET", f"/documents/{document_id}"),
            "bare": lambda: bare.call("GET", "/"),
        }
        repeat({name: Probe(call) for name, call in calls.items()}, 20)
        probes = {name: Probe(call) for name, call in calls.items()}
        repeat(probes, 50 if options.smoke else 1000)
    return {
        "benchmark": "kept connection, milliseconds",
        **circumstances("cpu", weights_of(options.model)),
        **{name: probe.summary() for name, probe in probes.items()},
    }


@contextmanager
def _bare_server() -> Iterator[Caller]:
    """Run a server that reads heads and sends one reply, in a process of its own."""
    command = [sys.executable, "-c", BARE_SERVER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Caller(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.kill()


main = program("faults_kept_connection", __doc__, measure)

if __name__ == "__main__":
    main()
