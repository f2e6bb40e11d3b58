"""Settings of workers: leases, polling, deadlines, order, and the limits of text extraction."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le

KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True)
class WorkerConfig:
    """How a worker holds its jobs.

    Attributes:
        lease_s: seconds after which the job of a worker that sends no heartbeat goes to another.
        heartbeat_s: seconds between renewals of the lease.
        poll_s: seconds between looks into the queue when no new job is announced.
        max_attempts: number of crashes after which a document is failed.
        extract_timeout_s: seconds that the extraction of a file's text may take.
        extract_memory_bytes: bytes of memory that the extracting process may take.
        deadline_base_s: seconds that any document may take.
        deadline_factor: how many times as long as expected reading a document may take besides.
        light_bytes: size of a file in bytes up to which it counts as light: light files are read
            beside others, so that they need not wait for a long one. 0 reads one file at a time.
        light_turn_s: seconds after which a light file that is not read yet counts as heavy, if
            light files of others wait.
        metrics_host, metrics_port: where a worker process of its own shows its metrics, to whoever
            can connect to that address; port 0 for nowhere.
    """

    lease_s: Annotated[float, Gt(0)] = 30.0
    heartbeat_s: Annotated[float, Gt(0)] = 5.0
    poll_s: Annotated[float, Gt(0)] = 1.0
    max_attempts: Annotated[int, Gt(0)] = 3
    extract_timeout_s: Annotated[float, Gt(0)] = 60.0
    extract_memory_bytes: Annotated[int, Gt(0)] = 1024 * MIB
    deadline_base_s: Annotated[float, Gt(0)] = 120.0
    deadline_factor: Annotated[float, Gt(0)] = 10.0
    light_bytes: Annotated[int, Ge(0)] = 16 * KIB
    light_turn_s: Annotated[float, Gt(0)] = 15.0
    metrics_host: str = "127.0.0.1"
    metrics_port: Annotated[int, Ge(0), Le(65535)] = 0
