"""What a worker needs from whoever turns a file into an artifact."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

Progress = Callable[[str, int, int], None]  # phase, tokens done, tokens in all; may raise to stop


@dataclass(frozen=True)
class BuiltArtifact:
    """A document that was read.

    Attributes:
        manifest: the engine's description of the files, JSON-like.
        files: (name, bytes) one by one, so that not all of them need be held twice.
        kv_bytes: bytes of keys and values that full attention reads.
    """

    manifest: Mapping[str, Any]
    files: Iterator[tuple[str, bytes | memoryview]]
    kv_bytes: int
    num_tokens: int
    num_pages: int


class ArtifactBuilder(Protocol):
    """Reads documents in one way, which its fingerprint names."""

    @property
    def fingerprint(self) -> str:
        """Identify the model and the settings; artifacts of another one are not used.

        Raises: whatever keeps the model from being loaded, before any job is claimed.
        """

    def build(self, path: Path, kind: str, progress: Progress) -> BuiltArtifact:
        """Read a file of a known kind and build its artifact.

        Raises: DocumentRejected and its kin for the file's own faults.
        """
