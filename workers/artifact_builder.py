"""The interface between a worker and the code that makes an artifact of a file."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from common.status import Progress


@dataclass(frozen=True)
class BuiltArtifact:
    """The artifact of a document, before it is stored.

    Attributes:
        manifest: the engine's description of the files, made of JSON values.
        files: (name, bytes) one after the other, so that not all need to be in memory twice.
        kv_bytes: bytes of keys and values that full attention reads for each token.
        num_tokens, num_pages: of the document's text.
    """

    manifest: Mapping[str, Any]
    files: Iterator[tuple[str, bytes | memoryview]]
    kv_bytes: int
    num_tokens: int
    num_pages: int


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

    def build(self, path: Path, kind: str, progress: Progress) -> BuiltArtifact:
        """Read a file and build its artifact.

        Args:
            path: the uploaded file.
            kind: name of the extractor that reads it.
            progress: called at least about once a second; what it raises must not be caught.
        Raises: DocumentRejected or one of its subclasses if the file itself is at fault.
        """
