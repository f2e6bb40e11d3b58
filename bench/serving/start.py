"""How long a server takes until it is ready: on its first start, and on later ones.

    python -m bench.serving.start
    python -m bench.serving.start --model FOLDER --drawn llama3_8b

All starts share a data folder and the compilers' caches, which the first one finds empty: it
hashes the weights and compiles all kernels and layers. Later ones find digests and kernels, and the
weights in the page cache.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from bench import RESULTS
from bench.faults.server import serving, weights_of
from bench.random_llama import SEED
from training.record import circumstances, drawn, percentiles, write

CACHES = {"TRITON_CACHE_DIR": "triton", "TORCHINDUCTOR_CACHE_DIR": "inductor"}


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
    seconds = []
    with TemporaryDirectory(prefix="lectern-start-") as folder:
        kept = {name: f"{folder}/{place}" for name, place in CACHES.items()}
        kept["LECTERN_DATA_DIR"] = f"{folder}/data"
        for _ in range(options.starts):
            seconds.append(seconds_until_ready(options.model, kept | settings))
            print(f"ready after {seconds[-1]:.1f} s", flush=True)
    weights = drawn(options.drawn, SEED) if options.drawn else weights_of(options.model)
    result = {
        "benchmark": "start of a server",
        **circumstances(device, weights),
        "settings": settings,
        "first_s": seconds[0],
        "later_s": percentiles(seconds[1:]),
    }
    print(write(f"start_{device}", result, options.out))


def seconds_until_ready(model: str, settings: dict[str, str]) -> float:
    """Start a server, wait until it is ready, and stop it."""
    started_s = time.monotonic()
    with serving(model, **settings):
        return time.monotonic() - started_s


if __name__ == "__main__":
    main()
