"""All programs of this folder, one after the other, each in a process of its own.

python -m bench.faults.storm            at the sizes that the bars name
python -m bench.faults.storm --smoke    few and small, for a look
"""

import argparse
import importlib
import pkgutil
import subprocess
import sys
import time
from pathlib import Path

from bench import RESULTS, faults


def main() -> None:
    """Run the programs and print how each ended; exit with 1 if one failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="few and small, for a look")
    parser.add_argument("--only", nargs="*", default=programs(), help="names of programs")
    parser.add_argument("--model", default="", help="a model's folder; the bundled reader")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args()
    failed = []
    for name in options.only:
        command = [sys.executable, "-m", f"bench.faults.{name}", "--out", str(options.out)]
        command += ["--smoke"] if options.smoke else []
        command += ["--model", options.model] if options.model else []
        started_s = time.monotonic()
        code = subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode
        print(f"{name:20} {'failed' if code else 'done':8} {time.monotonic() - started_s:7.0f} s")
        failed += [name] if code else []
    sys.exit(1 if failed else 0)


def programs() -> list[str]:
    """Return the names of the programs: the modules of this folder that have a `main`."""
    names = (module.name for module in pkgutil.iter_modules(faults.__path__))
    return [name for name in names if name != "storm" and _is_program(name)]


def _is_program(name: str) -> bool:
    return hasattr(importlib.import_module(f"bench.faults.{name}"), "main")


if __name__ == "__main__":
    main()
