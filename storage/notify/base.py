"""The interface of a notifier. It only saves waiting: all state is in SQL, none in messages."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from common.status import DocumentStatus


@dataclass(frozen=True)
class DocumentState:
    """What watchers of a document get to see.

    Attributes:
        phase: what its worker does; None before a worker began.
        tokens_done, tokens_total: progress of the whole reading.
        error_code, error_message: why the document failed; None unless it did.
    """

    status: DocumentStatus
    phase: str | None = None
    tokens_done: int = 0
    tokens_total: int = 0
    error_code: str | None = None
    error_message: str | None = None


@dataclass(frozen=True)
class NotifierConfig:
    """What a notifier is built from.

    Attributes:
        url: address of the server that carries the messages, if there is one.
        poll_s: seconds between looks into SQL when no message arrives.
        channel: first word of the names of the server's channels.
    """

    url: str = ""
    poll_s: float = 0.5
    channel: str = "lectern"


class Notifier(Protocol):
    """Wakes workers and watchers. If its server fails, they poll; no call raises an error."""

    def notify_workers(self) -> None:
        """Tell waiting workers that there is a new job."""

    def wait_for_job(self, timeout_s: float) -> bool:
        """Wait until a job was announced.

        Args:
            timeout_s: longest wait in seconds.
        Returns: whether a job was announced.
        """

    def notify_watchers(self, document_id: UUID) -> None:
        """Tell the watchers of a document that its state in SQL has changed."""

    def watch(
        self,
        document_id: UUID,
        read_state: Callable[[], DocumentState | None],
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[DocumentState]:
        """Yield a document's state, and again whenever it has changed.

        The iterator ends when the document is ready, failed or deleted.

        Args:
            read_state: returns the document's state from SQL; None once the document is deleted.
            is_stopped: asked about every `poll_s` seconds, and ends the iterator when it is true.
        """

    def close(self) -> None:
        """Close all connections and wake workers that wait."""


def yield_changes(
    read_state: Callable[[], DocumentState | None],
    wait: Callable[[], None],
    is_stopped: Callable[[], bool],
) -> Iterator[DocumentState]:
    """Yield a state whenever it has changed, until it is final or None, or `is_stopped` is true.

    Args:
        wait: returns when it is time to read the state again.
    """
    previous: DocumentState | None = None
    while not is_stopped() and (state := read_state()) is not None:
        if state != previous:
            previous = state
            yield state
        if state.status.is_final:
            return
        wait()
