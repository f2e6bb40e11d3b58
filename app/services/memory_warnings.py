"""What a document's owner should know about its place in memory before asking."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from common.errors import PinsExceedMemory
from common.format import format_bytes
from engine.document.cache_bytes import CacheBytes
from engine.residents.documents import ResidentDocuments
from engine.residents.entry import Tier
from storage.db.records import DocumentRecord, JobRecord

BYTES_PER_TOKEN = 4  # of plain text, roughly, before it is tokenized
PLAIN_KINDS = frozenset({"txt", "markdown", "html"})
TOO_LARGE, NOT_RESIDENT = "too_large_for_memory", "will_not_stay_resident"


@dataclass(frozen=True)
class MemoryWarning:
    """A warning with a code for programs and a sentence for people."""

    code: str
    message: str


@dataclass(frozen=True)
class MemoryWarnings:
    """Finds what to warn of.

    Attributes:
        sizes: bytes that documents take; None if that is not known.
        documents: the documents that are in memory.
    """

    sizes: CacheBytes | None
    documents: ResidentDocuments[Any]

    def bytes_of(self, document: DocumentRecord, job: JobRecord | None) -> int | None:
        """Return about how many bytes a document takes, or will take; None if that is not known.

        Args:
            job: of the document's reading, which may know its number of tokens.
        """
        num_tokens = document.num_tokens or (job.tokens_total if job else 0)
        if not num_tokens and document.kind in PLAIN_KINDS:
            num_tokens = document.num_bytes // BYTES_PER_TOKEN
        return self.sizes.of(num_tokens) if self.sizes and num_tokens else None

    def check_pin(self, document: DocumentRecord, pinned: Iterable[DocumentRecord]) -> None:
        """Return if a document fits beside those that are pinned, as far as lengths are known.

        Raises: PinsExceedMemory.
        """
        limit, takes = self.documents.limit_bytes(Tier.DEVICE), self.bytes_of(document, None) or 0
        others = [self.bytes_of(one, None) or 0 for one in pinned if one.id != document.id]
        if takes + sum(others) > limit:
            raise PinsExceedMemory(
                f"This document takes about {format_bytes(takes)}, and {len(others)} pinned "
                f"documents have {format_bytes(sum(others))} of the {format_bytes(limit)} that all "
                "documents may have. Unpin one of them."
            )

    def find(self, document: DocumentRecord, job: JobRecord | None) -> Iterator[MemoryWarning]:
        """Yield what is to be said about a document."""
        num_bytes = self.bytes_of(document, job)
        if num_bytes is None:
            return
        limit, room = (
            self.documents.limit_bytes(Tier.DEVICE),
            self.documents.room_bytes(document.id),
        )
        takes = f"It takes about {format_bytes(num_bytes)} of memory"
        if num_bytes > limit:
            yield MemoryWarning(
                TOO_LARGE,
                f"{takes}, and all documents together may have {format_bytes(limit)}: questions "
                "about it will be refused.",
            )
        elif num_bytes > room:
            yield MemoryWarning(
                NOT_RESIDENT,
                f"{takes}, and pinned documents leave {format_bytes(max(0, room))} of "
                f"{format_bytes(limit)}: questions about it will be refused while they are pinned.",
            )
