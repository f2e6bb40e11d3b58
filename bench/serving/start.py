"""How long a server takes until it is ready: on its first start, and on later ones.

    python -m bench.serving.start
    python -m bench.serving.start --model FOLDER --drawn llama3_8b

All starts share a data folder and the compilers' caches, which the first one finds empty: it
hashes the weights and compiles all modules, kernels and layers. Later ones find digests, bytecode
and kernels, and the weights in the page cache.
"""

import argparse
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bench import RESULTS
from bench.faults.server import serving, weights_of
from bench.random_llama import SEED
from training.record import circumstances, drawn, percentiles, write

CACHES = {
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    # Of modules: where packages were installed without, each start compiles 2,000 files.
    "PYTHONPYCACHEPREFIX": "bytecode",
}


def main(given: Sequence[str] | None = None) -> None:
    """Start the server a few times, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default="", help="a model's folder; the bundled reader")
    parser.add_argument("--drawn", default="", help="the shape of random weights in that folder")
    parser.add_argument("--starts", type=int, default=4, help="the first one included")
    parser.add_argument("--setting", nargs="*", default=[], help="LECTERN_...=VALUE of the server")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    options = parser.parse_args(given)
    settings = dict(setting.split("=", 1) for setting in options.setting)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    starts: list[Start] = []
    with TemporaryDirectory(prefix="lectern-start-") as folder:
        kept = {name: f"{folder}/{place}" for name, place in CACHES.items()}
        kept["LECTERN_DATA_DIR"] = f"{folder}/data"
        weights = drawn(options.drawn, SEED) if options.drawn else weights_of(options.model)
        for _ in range(options.starts):
            starts.append(start_once(options.model, kept | settings))
            print(starts[-1], flush=True)
            result = {
                "benchmark": "start of a server",
                **circumstances(device, weights),
                "settings": settings,
                **told(starts),
            }
            path = write(f"start_{device}", result, options.out)  # in case that a later one hangs
    print(path)


@dataclass(frozen=True)
class Start:
    """What a start took.

    Attributes:
        ready_s: from the process's start until it is ready, in seconds.
        model_loaded_s, engine_prepared_s: of that, as the server's log tells.
    """

    ready_s: float
    model_loaded_s: float
    engine_prepared_s: float


def start_once(model: str, settings: dict[str, str]) -> Start:
    """Start a server, wait until it is ready, and stop it."""
    started_s = time.monotonic()
    with serving(model, **settings) as server:
        ready_s = time.monotonic() - started_s
        log = (server.folder / "server.log").read_text()
    return Start(
        ready_s,
        _logged(r"model loaded +duration_ms=([0-9.]+)", log) / 1000,
        _logged(r"engine was prepared in ([0-9.]+) s", log),
    )


def told(starts: Sequence[Start]) -> dict[str, Any]:
    """The first start's time to ready, and percentiles of what later ones took."""
    found: dict[str, Any] = {"first_s": starts[0].ready_s}
    if later := starts[1:]:
        found["later_s"] = percentiles([one.ready_s for one in later])
        found["later_model_loaded_s"] = percentiles([one.model_loaded_s for one in later])
        found["later_engine_prepared_s"] = percentiles([one.engine_prepared_s for one in later])
    return found


def _logged(pattern: str, log: str) -> float:
    """A figure of a server's log."""
    found = re.search(pattern, log)
    if found is None:
        raise RuntimeError(f"The server's log does not tell '{pattern}'.")
    return float(found[1])


if __name__ == "__main__":
    main()
