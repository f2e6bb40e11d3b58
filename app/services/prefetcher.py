"""Brings documents into memory before anybody asks about them."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

import structlog

from common.error_trace import error_trace
from common.errors import LecternError
from storage.db.records import DocumentRecord

MAX_THREADS = 2  # a load keeps the disk and several processors busy by itself


class Prefetcher:
    """Loads documents on a few threads, for which nobody waits.

    Args:
        lease: leases a document's cache, which loads it.
    """

    def __init__(self, lease: Callable[[DocumentRecord], AbstractContextManager[Any]]) -> None:
        self._lease = lease
        self._threads = ThreadPoolExecutor(MAX_THREADS, "prefetch")
        self._lock = threading.Lock()
        self._loading: set[UUID] = set()

    def start(self, document: DocumentRecord) -> None:
        """Load a document soon, unless that is being done already."""
        with self._lock:
            if document.id in self._loading:
                return
            self._loading.add(document.id)
        try:
            self._threads.submit(self._load, document)
        except RuntimeError:  # the server stops
            self._loading.discard(document.id)

    def is_loading(self, document_id: UUID) -> bool:
        """Whether a document is being loaded or waits for that."""
        return document_id in self._loading

    def close(self) -> None:
        """Begin no more loads; one that is under way goes on."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _load(self, document: DocumentRecord) -> None:
        log = structlog.get_logger("lectern.memory").bind(document_id=str(document.id))
        try:
            with self._lease(document):
                log.info("document prefetched")
        except LecternError as error:
            log.warning("document not prefetched", code=error.code)
        except Exception as error:
            log.error("document not prefetched", exception=error_trace(error))
        finally:
            self._loading.discard(document.id)
