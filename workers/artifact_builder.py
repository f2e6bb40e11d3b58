"""The interface between a worker and the code that makes an artifact of a file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from common.status import Progress


@dataclass(frozen=True)
class BuiltArtifact:
    """The artifact of a document, whose files are being stored.

    Attributes:
        manifest: the engine's description of the files, made of JSON values.
        kv_bytes: bytes of keys and values that full attention reads for each token.
        num_tokens, num_pages: of the document's text.
        warnings: by code, what could not be taken from the file.
        cache: the document as the engine holds it, for a server in the same process; None for none.
    """

    manifest: Mapping[str, Any]
    kv_bytes: int
    num_tokens: int
    num_pages: int
    warnings: Mapping[str, str] = field(default_factory=dict)
    cache: Any = None


class FileStore(Protocol):
    """Where a builder puts an artifact's files, in any order."""

    def write(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Begin to store a file.

        Args:
            name: of the file.
            pieces: its bytes, which are taken on another thread; one is used before the next.
        Raises: what storing an earlier file has raised, which must not be caught.
        """


class ArtifactBuilder(Protocol):
    """Builds artifacts with one model and one set of settings, which its fingerprint names."""

    @property
    def fingerprint(self) -> str:
        """Return the name of model and settings; artifacts with another one are not used.

        Raises: whatever keeps the model from being loaded. A worker asks before it claims a job.
        """

    def expected_s(self, num_tokens: int) -> float:
        """Estimate how long reading a document should take, for its deadline.

        Args:
            num_tokens: of the document.
        Returns: seconds.
        """

    def expected_bytes(self, num_tokens: int) -> int:
        """Return the bytes that the artifact of a document will have, nearly.

        Args:
            num_tokens: of the document.
        """

    def build(self, path: Path, kind: str, progress: Progress, files: FileStore) -> BuiltArtifact:
        """Read a file and build its artifact.

        Args:
            path: the uploaded file.
            kind: name of the extractor that reads it.
            progress: called at least about once a second; what it raises must not be caught.
            files: where the artifact's files go, each as soon as it is known.
        Raises: DocumentRejected or one of its subclasses if the file itself is at fault.
        """
