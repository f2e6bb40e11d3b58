"""The demo as a stranger runs it: seconds, peak memory summed over its processes, right answers.

python -m bench.serving.demo
"""

import argparse
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from bench import RESULTS
from engine.model.fingerprint import weights_fingerprint
from reader import WEIGHTS
from training.record import circumstances, write

INTERVAL_S = 0.1
RIGHT = re.compile(r"(\d+) of (\d+) right")


def main() -> None:
    """Run the demo once, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    options = parser.parse_args()
    print(write("demo", measure(), options.out).read_text())


def measure() -> dict[str, Any]:
    """Run `lectern demo --exit` in a fresh folder and watch its processes."""
    command = [str(Path(sys.executable).with_name("lectern")), "demo", "--exit"]
    with TemporaryDirectory() as folder:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            env={"PATH": "/usr/bin:/bin", "HOME": folder, "LECTERN_DATA_DIR": folder},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        peak: list[int] = [0]
        watcher = threading.Thread(target=_watch, args=(process.pid, peak))
        watcher.start()
        output, _ = process.communicate()
        seconds = time.perf_counter() - started
        watcher.join()
    found = RIGHT.search(output)
    if process.returncode != 0 or found is None:
        raise SystemExit(f"The demo failed with {process.returncode}:\n{output}")
    return {
        "benchmark": "demo",
        **circumstances("cpu", weights_fingerprint(WEIGHTS)),
        "seconds": seconds,
        "peak_gb": peak[0] / 1e9,
        "right": int(found[1]),
        "asked": int(found[2]),
    }


def _watch(pid: int, peak: list[int]) -> None:
    """Keep the largest sum of resident memory over a process and its children, in bytes."""
    try:
        process = psutil.Process(pid)
        while process.status() != psutil.STATUS_ZOMBIE:
            family = [process, *process.children(recursive=True)]
            peak[0] = max(peak[0], sum(_resident(one) for one in family))
            time.sleep(INTERVAL_S)
    except psutil.NoSuchProcess:
        return


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


if __name__ == "__main__":
    main()
