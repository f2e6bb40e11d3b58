"""A worker: it claims jobs, reads their documents and publishes the artifacts."""

import threading
from typing import Any

import structlog

from common.errors import Transient
from common.spans import SpanListener, ignore_spans
from storage.processes import WORKER
from storage.storage import Storage
from workers.artifact_builder import ArtifactBuilder
from workers.config import WorkerConfig
from workers.job_run import JobRun, describe
from workers.residence import Residence
from workers.sweeper import Sweeper


class Worker:
    """Reads one document of any length at a time, and beside it one light document.

    Args:
        storage: is bound to the builder's model and settings here.
        builder: makes an artifact's files of an uploaded file.
        config: leases, polling, deadlines, and how often a job may crash.
        residence: the memory of the server in this process; None if there is none.
        on_span: told of every document when its reading has ended, on the thread that read it.
    """

    def __init__(
        self,
        storage: Storage,
        builder: ArtifactBuilder,
        config: WorkerConfig,
        residence: Residence | None = None,
        on_span: SpanListener = ignore_spans,
    ) -> None:
        self._storage = storage
        self._builder = builder
        self._config = config
        self._residence = residence
        self._on_span = on_span
        self._owner = storage.liveness.new_owner()
        self._stop = threading.Event()
        self._runs: set[JobRun] = set()

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set; documents that are being read then go back to the queue.

        Raises: what keeps the model from being loaded; no other error ends the worker.
        """
        self._stop = stop
        storage = self._bound_storage()
        sweeper = Sweeper(storage, self._config.max_attempts)
        threads = [threading.Thread(target=sweeper.run, args=(stop,), name="sweeper", daemon=True)]
        if self._config.light_bytes:
            light = threading.Thread(
                target=self._claim_jobs,
                kwargs={"is_light": True},
                name="light-worker",
                daemon=True,
            )
            threads.append(light)
        with (
            storage.liveness.hold(self._owner),
            storage.processes.alive(self._owner, WORKER, storage.fingerprint),
        ):
            for thread in threads:
                thread.start()
            self._claim_jobs()
            for thread in threads:
                thread.join()

    def run_once(self, *, is_light: bool = False) -> bool:
        """Claim a job and do it; return whether there was one.

        Args:
            is_light: whether to take light jobs only.
        Raises: Transient if the queue cannot be read; what keeps the model from being loaded.
        """
        storage, config = self._bound_storage(), self._config
        job = storage.jobs.claim(
            self._owner,
            config.lease_s,
            deadline_s=config.deadline_base_s,
            most_cost=config.light_bytes if is_light else None,
        )
        if job is None:
            return False
        run = JobRun(
            storage,
            self._builder,
            config,
            job,
            self._stop,
            is_light=is_light,
            residence=self._residence,
            on_span=self._on_span,
        )
        self._runs.add(run)
        try:
            run.run()
        finally:
            self._runs.discard(run)
        return True

    def abandon(self) -> None:
        """Put all jobs back into the queue now, for a process that ends at once."""
        for run in tuple(self._runs):
            run.abandon()

    def _claim_jobs(self, *, is_light: bool = False) -> None:
        """Do one job after the other until the worker has to stop."""
        while not self._stop.is_set():
            if not self._try_run_once(is_light=is_light):
                self._storage.notifier.wait_for_job(self._config.poll_s)

    def _try_run_once(self, *, is_light: bool) -> bool:
        try:
            return self.run_once(is_light=is_light)
        except Transient as error:
            self._log().warning("queue cannot be read", reason=error.code)
        except Exception as error:
            self._log().error("job not claimed", **describe(error))
        return False

    def _bound_storage(self) -> Storage:
        """Return storage as a process with the builder's model and settings sees it."""
        fingerprint = self._builder.fingerprint
        if self._storage.fingerprint != fingerprint:
            self._storage = self._storage.of(fingerprint)
        return self._storage

    def _log(self) -> Any:
        return structlog.get_logger("lectern.worker").bind(owner=self._owner)
