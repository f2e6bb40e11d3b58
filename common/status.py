"""The states of documents and jobs, and the phases of reading a document.

The values are stored in SQL and sent to HTTP clients, so they must not change.
"""

from collections.abc import Callable
from enum import StrEnum


class DocumentStatus(StrEnum):
    """How far a document is on its way from upload to answers.

    Attributes:
        QUEUED: it waits for a worker to read it.
        READING: a worker reads it.
        READABLE: the worker in this very process has read it and is storing its cache: questions
            can be asked, though not in other processes, and not after a crash. It is never stored
            in SQL.
        READY: its cache is stored, so questions can be asked.
        FAILED: it could not be read; its error says why.
        REBUILDING: it was ready before and is being read again.
    """

    QUEUED = "queued"
    READING = "reading"
    READABLE = "readable"
    READY = "ready"
    FAILED = "failed"
    REBUILDING = "rebuilding"

    @property
    def is_final(self) -> bool:
        """Whether nothing is being done for the document, so that its status stays as it is."""
        return self in (DocumentStatus.READY, DocumentStatus.FAILED)

    @property
    def is_stored(self) -> bool:
        """Whether SQL may hold it; other statuses are how one process sees a document."""
        return self is not DocumentStatus.READABLE

    @property
    def is_in_work(self) -> bool:
        """Whether the document has a job that is queued or running."""
        return not self.is_final


class JobStatus(StrEnum):
    """How far the job of reading a document is."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_active(self) -> bool:
        """Whether a worker runs the job or is going to run it."""
        return self in (JobStatus.QUEUED, JobStatus.RUNNING)


class Phase(StrEnum):
    """What a worker does with a document, in the order in which it is reported.

    Attributes:
        EXTRACT: the file's text is extracted.
        TOKENIZE: the text is tokenized.
        PREFILL: the model reads the document's tokens.
        CLUSTER: the keys of each layer are clustered.
        CALIBRATE: lookup thresholds are measured for each budget.
        PACK: the artifact's files are written and published.
    """

    EXTRACT = "extract"
    TOKENIZE = "tokenize"
    PREFILL = "prefill"
    CLUSTER = "cluster"
    CALIBRATE = "calibrate"
    PACK = "pack"


# Called with the phase, the number of tokens that the phase has done and the number of tokens in
# all, which is 0 until it is known. It is called about once a second or more often, with the same
# numbers if nothing has changed. An exception that it raises stops the work.
Progress = Callable[[Phase, int, int], None]
