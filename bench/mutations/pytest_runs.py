"""Runs of pytest in a folder, each in a process of its own that ends in time."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

# Imported once, as that takes longer than most tests; not what pytest loads as plug-ins, as it has
# to rewrite those itself.
PRELOADED = (
    "alembic.command",
    "argon2",
    "fastapi",
    "httpx",
    "icu4py.breakers",
    "numpy",
    "psycopg",
    "pydantic_settings",
    "pypdf",
    "redis",
    "rich.table",
    "safetensors.torch",
    "sqlalchemy.orm",
    "structlog",
    "torch",
    "transformers.loss.loss_utils",
    "transformers.models.auto.modeling_auto",
    "transformers.models.llama.modeling_llama",
    "transformers.quantizers.auto",
    "triton",
    "typer",
    "uvicorn",
)
SERVER = Path(__file__).with_name("fork_server.py")
OPTIONS = (
    "-q",
    "--tb=no",
    "--timeout=120",  # a test that hangs has noticed the bug
    "-p",
    "no:cacheprovider",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",  # of plug-ins that a library imports
)
LOG = "pytest.log"


class PytestRuns:
    """Runs pytest in a folder, one run at a time; a context manager.

    Args:
        root: the folder, whose packages are imported before installed ones of the same name.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._server = subprocess.Popen(
            [sys.executable, "-P", str(SERVER), *PRELOADED],
            cwd=root,
            env=_environment(root),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.kill()
        self._server.communicate()

    def run(self, arguments: Sequence[str], limit_s: float) -> tuple[int | None, str]:
        """Run tests.

        Args:
            arguments: of pytest, beside `OPTIONS`.
            limit_s: seconds after which the run and all that it has started are ended.
        Returns: pytest's exit status, None after `limit_s`; and what it has printed.
        Raises: RuntimeError if the process that runs pytest has died.
        """
        log = self._root / LOG
        request = {"arguments": [*OPTIONS, *arguments], "output": str(log)}
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(request).encode() + b"\n")
        pid = int(self._read_line())
        ended = self._wait(limit_s)
        with suppress(ProcessLookupError):  # servers that tests have started end with them
            os.killpg(pid, signal.SIGKILL)
        status = int(self._read_line())
        return status if ended else None, log.read_text(encoding="utf-8", errors="replace")

    def _wait(self, limit_s: float) -> bool:
        """Wait until there is something to read; return whether there is."""
        assert self._server.stdout is not None
        return bool(select.select([self._server.stdout], [], [], limit_s)[0])

    def _read_line(self) -> bytes:
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        if not line:
            raise RuntimeError(f"The process that runs pytest in {self._root} has died.")
        return line


def _environment(root: Path) -> dict[str, str]:
    """Variables of the process that runs pytest; its libraries import Triton, as tests would."""
    own = {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    if not Path("/dev/nvidia0").exists():
        own["TRITON_INTERPRET"] = "1"  # see tests/conftest.py
    return os.environ | own
