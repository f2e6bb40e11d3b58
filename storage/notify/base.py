"""What a bell does. It only saves waiting: the truth is in SQL, and nothing depends on a ring."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

Event = dict[str, Any]
FINAL = frozenset({"ready", "failed"})


def never() -> bool:
    """Go on watching."""
    return False


@dataclass(frozen=True)
class BellConfig:
    """What a bell is built from.

    Attributes:
        look: the document's state as SQL has it; None once the document is gone.
        url: of the server that carries rings, if one does.
        poll_s: how often SQL is looked at when nothing carries progress.
        channel: first word of the channels' names.
    """

    look: Callable[[UUID], Event | None]
    url: str = ""
    poll_s: float = 0.5
    channel: str = "lectern"


def changes(
    look: Callable[[], Event | None], wait: Callable[[], None], stopped: Callable[[], bool]
) -> Iterator[Event]:
    """Yield what `look` sees whenever it has changed, until it is final, gone, or `stopped`.

    Args:
        wait: returns when it is time to look again.
    """
    seen: Event | None = None
    while not stopped() and (now := look()) is not None:
        if now != seen:
            seen = now
            yield now
        if now["status"] in FINAL:
            return
        wait()


class Bell(Protocol):
    """Rings for new jobs and events of documents being read; never fails for want of a server."""

    def ring(self) -> None:
        """Wake whoever waits for jobs."""

    def wait(self, timeout_s: float) -> bool:
        """Wait for a ring, at most `timeout_s`; whether there was one."""

    def publish(self, document_id: UUID, event: Mapping[str, Any]) -> None:
        """Tell watchers of a document how far it is: small JSON-like values, never its text."""

    def subscribe(self, document_id: UUID, stopped: Callable[[], bool] = never) -> Iterator[Event]:
        """Yield a document's state whenever it changes, until it is ready, failed or gone.

        Args:
            stopped: asked about every `poll_s`, so that a watcher who leaves frees its thread.
        """

    def close(self) -> None:
        """Give up connections."""
