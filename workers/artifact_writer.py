"""Write an artifact's files on threads, while its later layers are still being computed."""

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Self

from common.errors import JobCancelled
from storage.artifacts.draft import ArtifactDraft

MOST_THREADS = 4
CHECK_S = 0.2


class ArtifactWriter:
    """Writes files of a draft as they come; a context manager that ends with its threads.

    Each file is copied from where its tensors lie, hashed, written and synced by one thread: the
    memory that this takes is a few pieces, however long the document is.
    """

    def __init__(self, draft: ArtifactDraft) -> None:
        self._draft = draft
        self._stop = threading.Event()
        self._files: list[Future[None]] = []
        threads = max(1, min(MOST_THREADS, (os.cpu_count() or 1) - 1))
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="artifact-writer")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def write(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Begin to write a file.

        Args:
            name, pieces: as of `ArtifactDraft.write`; the pieces are taken on another thread.
        Raises: what writing an earlier file has raised.
        """
        self._raise_first_error()
        self._files.append(self._pool.submit(self._draft.write, name, pieces, self._check))

    def finish(self, check: Callable[[float], None]) -> None:
        """Wait until all files are written and synced.

        Args:
            check: told several times a second which share of the files is done; may raise to stop.
        Raises: what writing a file has raised; StorageFull among it.
        """
        unfinished: set[Future[None]] = set(self._files)
        while unfinished:
            check(1 - len(unfinished) / len(self._files))
            _, unfinished = wait(unfinished, timeout=CHECK_S, return_when=FIRST_EXCEPTION)
            self._raise_first_error()
        check(1.0)

    def _raise_first_error(self) -> None:
        for file in self._files:
            if file.done() and (error := file.exception()) is not None:
                raise error

    def _check(self) -> None:
        if self._stop.is_set():
            raise JobCancelled("The artifact is not written any more.")
