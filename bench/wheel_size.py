"""The size of the wheel, built from the files of the last commit; it holds the product alone.

python -m bench.wheel_size
"""

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

from bench import RESULTS
from training.record import commit, write

ROOT = Path(__file__).parent.parent
LEFT_OUT = ("bench", "tests", "training")


def main() -> None:
    """Build, measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        print(write("wheel", measure(build(Path(folder))), options.out).read_text())


def build(folder: Path) -> Path:
    """Build the wheel of the last commit in a folder; nothing is fetched.

    Raises: subprocess.CalledProcessError if git or pip fails.
    """
    source = folder / "source"
    source.mkdir()
    archive = folder / "source.tar"
    _run("git", "-C", str(ROOT), "archive", "--output", str(archive), "HEAD")
    _run("tar", "-xf", str(archive), "-C", str(source))
    options = ("--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
    _run(sys.executable, "-m", "pip", "wheel", "--quiet", *options, str(source))
    (wheel,) = folder.glob("*.whl")
    return wheel


def measure(wheel: Path) -> dict[str, Any]:
    """Bytes and files of a wheel.

    Raises: SystemExit if it holds what is to be left out of it.
    """
    with ZipFile(wheel) as archive:
        names = archive.namelist()
    if held := sorted({name for name in names if name.split("/")[0] in LEFT_OUT}):
        raise SystemExit(f"The wheel holds {held[0]} and {len(held) - 1} others that do not ship.")
    size = wheel.stat().st_size
    return {
        "benchmark": "wheel",
        "bytes": size,
        "megabytes": size / 1e6,
        "files": len(names),
        "commit": commit(),
    }


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
