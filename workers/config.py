"""Settings of workers: leases, polling, and the limits of text extraction."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt

MIB = 1024 * 1024


@dataclass(frozen=True)
class WorkerConfig:
    """How a worker holds its jobs.

    Attributes:
        lease_s: seconds after which a silent worker's job goes to another one.
        heartbeat_s: seconds between renewals of the lease.
        poll_s: seconds between looks into the queue when nothing announces new jobs.
        max_attempts: crashes after which a document is given up.
        extract_timeout_s: seconds that extraction of a file's text may take.
        extract_memory_bytes: memory that the extracting process may take.
    """

    lease_s: Annotated[float, Gt(0)] = 30.0
    heartbeat_s: Annotated[float, Gt(0)] = 5.0
    poll_s: Annotated[float, Gt(0)] = 1.0
    max_attempts: Annotated[int, Gt(0)] = 3
    extract_timeout_s: Annotated[float, Gt(0)] = 60.0
    extract_memory_bytes: Annotated[int, Gt(0)] = 1024 * MIB
