"""Room for uploads: places by key, threads, and processes that look into files.

Uploads have all of these to themselves, so that no number of slow files and slow disks keeps other
requests from being answered.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

from app.config import ServerConfig
from app.services.fair_slots import FairSlots
from app.services.shares import Shares
from common.errors import Busy, ShuttingDown
from common.owner import Owner
from ingest.inspect import Kind, inspect_quickly, presumed_kind
from ingest.limits import Limits
from ingest.sandbox import draw_limited, extract_limited, inspect_limited
from ingest.text import DocumentText

NUM_THREADS = 8
INSPECTION_S = 10.0  # or less, if extraction may take less
WAIT_S = 20.0  # for a process
STOP_INSPECTION_S = 5.0
STOPPING = "The server is stopping; upload again in a moment."
CROWDED = "Too many files are being looked into; upload again in a moment."

Result = TypeVar("Result")


class UploadRoom:
    """What uploads share.

    Attributes:
        places: uploads that each key may have under way.

    Args:
        limits: of the extraction of text, as the settings of workers name them.
        stopping_s: returns for how many seconds the server has been stopping, or 0.
    """

    def __init__(
        self, config: ServerConfig, limits: Limits, stopping_s: Callable[[], float]
    ) -> None:
        self.places = Shares("uploads", total=config.uploads, per_key=config.uploads_per_key)
        self._limits = replace(
            limits,
            timeout_s=min(limits.timeout_s, INSPECTION_S),
            memory_bytes=min(
                limits.memory_bytes, config.inspection_memory_bytes // config.inspections
            ),
        )
        self._stopping_s = stopping_s
        self._threads = CapacityLimiter(NUM_THREADS)
        self._processes = FairSlots(config.inspections)
        self._process_threads = CapacityLimiter(config.inspections)

    async def run(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Run work that waits for the disk or the database on a thread of uploads."""
        return await to_thread.run_sync(work, *arguments, limiter=self._threads)

    async def inspect(self, path: Path, filename: str, owner: Owner) -> Kind:
        """Determine the kind of an uploaded file, and refuse what cannot be read.

        Whatever takes a parser happens in a process of its own, and tenants take turns. If none is
        free for long, a PDF is accepted as what it seems to be: a password would show when it is
        read.

        Raises: what `ingest.inspect.inspect` raises; Busy, ShuttingDown.
        """
        kind = await self.run(inspect_quickly, path, filename, self._limits)
        if kind is not None:
            return kind
        try:
            return await self._run_apart(owner, inspect_limited, path, filename)
        except Busy:
            presumed = await self.run(presumed_kind, path, filename)
            if presumed.name != "pdf":
                raise
            return presumed

    async def draw(self, path: Path, page: int, width: int, owner: Owner) -> bytes:
        """Draw a page of a PDF, in a process of its own like those that look into uploads.

        Args:
            page: its number, from 1.
            width: of the picture in pixels.
        Returns: a PNG file.
        Raises: what `ingest.sandbox.draw_limited` raises; Busy, ShuttingDown.
        """
        return await self._run_apart(owner, draw_limited, path, page, width)

    async def extract(self, path: Path, kind: str, owner: Owner) -> DocumentText:
        """Extract the text of a file that no worker could read, as `draw` draws a page.

        Raises: what `ingest.sandbox.extract_limited` raises; Busy, ShuttingDown.
        """
        return await self._run_apart(owner, extract_limited, path, kind)

    async def _run_apart(
        self, owner: Owner, work: Callable[..., Result], *arguments: object
    ) -> Result:
        """Run work in a process of its own, once one is free. Raises: Busy if none is for long."""
        with anyio.move_on_after(WAIT_S) as waiting:
            async with self._processes.slot(owner):
                waiting.deadline = float("inf")
                call = partial(work, *arguments, self._limits, self._check_not_stopping)
                return await to_thread.run_sync(call, limiter=self._process_threads)
        raise Busy(CROWDED, retry_after_s=WAIT_S)

    def _check_not_stopping(self) -> None:
        if self._stopping_s() > STOP_INSPECTION_S:
            raise ShuttingDown(STOPPING)
