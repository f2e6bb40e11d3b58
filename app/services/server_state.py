"""What a server and its installation are like when somebody looks, as Prometheus metrics."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.services.question_queue import QuestionQueue
from common.errors import LecternError
from common.status import DocumentStatus, Phase
from engine.document.cache import DocumentCache
from engine.fallbacks import Fallback
from engine.residents.documents import ResidentDocuments
from engine.residents.entry import Reason, Tier
from engine.serving.engine_loop import EngineLoop
from storage.processes import SERVER, WORKER

if TYPE_CHECKING:  # for annotations alone
    from collections.abc import Mapping

    from storage.storage import Storage

MAX_AGE_S = 2.0  # of what the database told
STORED_STATUSES = tuple(status for status in DocumentStatus if status.is_stored)


@dataclass(frozen=True)
class ServerState(Collector):
    """Reads the state of one process, and of the installation that it belongs to.

    What comes from the database is the same in every process that shares it, and is asked for at
    most every two seconds. While the database is away, `lectern_database_up` is 0 and what it would
    tell is left out.

    Attributes:
        fallbacks: returns how often the engine did without what it was asked to use.
    """

    data_dir: Path
    storage: "Storage"
    engine_loop: EngineLoop
    residents: ResidentDocuments[DocumentCache]
    question_queue: QuestionQueue
    fallbacks: "Callable[[], Mapping[Fallback, int]]"
    installation: "Installation"

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        yield from self._questions()
        yield from self._memory()
        yield from self._engine()
        yield from self._disk()
        yield from self.installation.collect()

    def _questions(self) -> Iterator[Metric]:
        load = self.question_queue.load()
        yield _gauge(
            "lectern_questions_running", "Questions that are being answered.", load.running
        )
        yield _gauge("lectern_questions_waiting", "Questions that wait for a slot.", load.waiting)
        yield _gauge(
            "lectern_question_slots", "Questions that may be answered at once.", load.slots
        )

    def _memory(self) -> Iterator[Metric]:
        occupancy = self.residents.occupancy()
        tiers = {Tier.DEVICE: occupancy.device, Tier.HOST: occupancy.host}
        for name, told, field in (
            ("lectern_cache_documents", "Documents in a tier of memory.", "documents"),
            ("lectern_cache_bytes", "Bytes of documents in a tier of memory.", "num_bytes"),
            ("lectern_cache_limit_bytes", "Bytes that documents may have there.", "limit_bytes"),
            ("lectern_cache_pinned_bytes", "Bytes that are never evicted.", "pinned_bytes"),
            ("lectern_cache_leased_bytes", "Bytes that questions are using.", "leased_bytes"),
        ):
            family = GaugeMetricFamily(name, told, labels=["tier"])
            for tier, of_tier in tiers.items():
                family.add_metric([tier], getattr(of_tier, field))
            yield family
        lookups = CounterMetricFamily(
            "lectern_cache_lookups",
            "Questions' documents that were on the device (hit), or not (miss).",
            labels=["result"],
        )
        lookups.add_metric(["hit"], occupancy.hits)
        lookups.add_metric(["miss"], occupancy.misses)
        yield lookups
        loads = CounterMetricFamily(
            "lectern_cache_loads",
            "Documents that came to the device, by where from; from the device: read there.",
            labels=["tier"],
        )
        for tier in Tier:
            loads.add_metric([tier], occupancy.loads.get(tier, 0))
        yield loads
        evictions = CounterMetricFamily(
            "lectern_cache_evictions", "Documents that left a tier.", labels=["tier", "reason"]
        )
        for tier, of_tier in tiers.items():
            for reason in Reason:
                evictions.add_metric([tier, reason], of_tier.evictions.get(reason, 0))
        yield evictions

    def _engine(self) -> Iterator[Metric]:
        fallbacks = CounterMetricFamily(
            "lectern_fallbacks",
            "Times that an answer did without kernels, a graph or a batch, by the cause.",
            labels=["part", "cause"],
        )
        for (part, cause), count in self.fallbacks().items():
            fallbacks.add_metric([part, cause], count)
        yield fallbacks
        failed = CounterMetricFamily(
            "lectern_failed_steps", "Forward passes that have failed for a fault of their own."
        )
        failed.add_metric([], self.engine_loop.num_failed_steps)
        yield failed

    def _disk(self) -> Iterator[Metric]:
        try:
            usage = shutil.disk_usage(self.data_dir)
        except OSError:
            return
        yield _gauge("lectern_disk_free_bytes", "Free bytes of the data folder's disk.", usage.free)
        yield _gauge("lectern_disk_size_bytes", "Bytes of the data folder's disk.", usage.total)


class Installation:
    """What the database tells of all processes that share it.

    Args:
        max_age_s: seconds for which an answer of the database counts.
    """

    def __init__(self, storage: "Storage", max_age_s: float = MAX_AGE_S) -> None:
        self._storage = storage
        self._max_age_s = max_age_s
        self._lock = threading.Lock()
        self._asked_s = float("-inf")
        self._told: tuple[Metric, ...] = ()

    def collect(self) -> tuple[Metric, ...]:
        """Return the metrics, which may be a little old."""
        with self._lock:
            if time.monotonic() - self._asked_s >= self._max_age_s:
                self._told = self._ask()
                self._asked_s = time.monotonic()
            return self._told

    def _ask(self) -> tuple[Metric, ...]:
        is_up = _gauge("lectern_database_up", "Whether the database answers.", 1)
        try:
            return (is_up, *self._from_database())
        except LecternError:
            return (_gauge("lectern_database_up", "Whether the database answers.", 0),)

    def _from_database(self) -> Iterator[Metric]:
        totals, queue = self._storage.dashboard.totals(), self._storage.jobs.queue_state()
        documents = GaugeMetricFamily(
            "lectern_documents", "Documents of all tenants.", labels=["status"]
        )
        for status in STORED_STATUSES:
            documents.add_metric([status], getattr(totals, status.value))
        yield documents
        yield _gauge("lectern_stored_cache_bytes", "Bytes of all caches.", totals.stored_bytes)
        counts = self._storage.jobs.counts()
        yield _gauge("lectern_reading_jobs_waiting", "Documents that wait.", counts.waiting)
        running = GaugeMetricFamily(
            "lectern_reading_jobs_running", "Documents that are being read.", labels=["phase"]
        )
        for phase in ("", *Phase):
            running.add_metric([phase or "none"], counts.running.get(phase, 0))
        yield running
        yield _gauge(
            "lectern_reading_oldest_wait_seconds",
            "How long the oldest document waits that this server's workers could read.",
            queue.oldest_wait_s,
        )
        processes = GaugeMetricFamily(
            "lectern_processes", "Processes that show that they live.", labels=["role"]
        )
        for role in (SERVER, WORKER):
            processes.add_metric([role], len(self._storage.processes.living(role)))
        yield processes


def _gauge(name: str, told: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, told, value)
