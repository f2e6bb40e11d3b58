"""One claimed job, from the file to the published artifact, and how it ended whatever happens."""

import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from uuid import UUID

import structlog

from common.errors import (
    DocumentNotFound,
    DocumentTooLargeForGpu,
    GpuBusy,
    InvalidInput,
    LecternError,
    Permanent,
    ReadingTimeout,
    ShuttingDown,
    StorageFull,
    Transient,
    TurnEnded,
)
from common.spans import OK, Span, SpanListener, Value, ignore_spans
from common.status import Phase
from storage.artifacts.draft import ArtifactDraft
from storage.db.records import DocumentRecord, JobRecord
from storage.jobs.transitions import JOB_LOST_ERRORS
from storage.readable import ReadableDocument
from storage.storage import Storage
from workers.artifact_builder import ArtifactBuilder, BuiltArtifact
from workers.artifact_writer import ArtifactWriter
from workers.config import WorkerConfig
from workers.deadline import Deadline
from workers.heartbeat import Heartbeat
from workers.progress_report import ProgressReport
from workers.residence import Residence

UNEXPECTED = (
    "Reading this document failed for a reason that is not the document's own. The operator "
    "finds the details in the worker's log; upload it again for another try."
)
TOO_LARGE = (
    "Reading this document took more memory than the GPU had, however often it was tried. Use a "
    "GPU with more memory, smaller chunks or a smaller model; upload it again for another try."
)
LONGEST_DELAY_S = 15.0
OUTCOME_RETRIES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
OTHERS_ASKED_EVERY_S = 1.0


class JobRun:
    """A job that this process has claimed.

    Args:
        storage: as a process with the builder's model and settings sees it.
        builder: makes an artifact's files of an uploaded file.
        stop: is set when the worker has to stop.
        is_light: whether the job was claimed as a light one, which makes room for light ones of
            others after its turn.
        residence: the memory of the server in this process; None if there is none.
        on_span: told of the reading when it has ended, however that was.
    """

    def __init__(
        self,
        storage: Storage,
        builder: ArtifactBuilder,
        config: WorkerConfig,
        job: JobRecord,
        stop: threading.Event,
        *,
        is_light: bool = False,
        residence: Residence | None = None,
        on_span: SpanListener = ignore_spans,
    ) -> None:
        self._storage = storage
        self._builder = builder
        self._config = config
        self._job = job
        self._stop = stop
        self._is_light = is_light
        self._residence = residence
        self._on_span = on_span
        self._report: ProgressReport | None = None
        self._num_tokens = 0
        self._rooms = ExitStack()
        self._room: Any = None
        self._expected_bytes = 0
        self._deadline = Deadline(config)
        self._asked_s = 0.0
        self._has_failed = False

    def run(self) -> None:
        """Do the job, and write how it ended."""
        log = self._log()
        config = self._config
        try:
            with (
                self._telling(),
                Heartbeat(self._renew_lease, config.heartbeat_s, self._watch) as heartbeat,
            ):
                self._read_document(heartbeat)
        except (*JOB_LOST_ERRORS, DocumentNotFound) as error:
            log.info("stopped reading", reason=error.code)
        except ShuttingDown:
            self._write_outcome(self._release)
        except TurnEnded:
            log.info("read later, as others wait", cost=self._job.cost)
            self._write_outcome(lambda: self._release(cost=config.light_bytes + 1))
        except GpuBusy as error:  # another process may free memory, but a job must not wait forever
            log.warning("no memory left on the GPU", reason=error.code)
            self._retry_or_fail(DocumentTooLargeForGpu.code, TOO_LARGE)
        except Transient as error:
            log.warning("job will be tried again", reason=error.code)
            self._write_outcome(lambda: self._release(delay_s=self._delay_s()))
        except (InvalidInput, Permanent) as error:
            if not self._has_failed:
                self._fail(error.code, error.message)
        except Exception as error:
            log.error("reading failed", **describe(error))
            self._retry_or_fail(LecternError.code, UNEXPECTED)

    def abandon(self) -> None:
        """Put the job back into the queue now, though it is still being done.

        For a process that ends at once. What the work writes from now on is refused.
        """
        with suppress(LecternError):  # its lease ends by itself
            self._release()

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Tell of the reading when the block has ended, unless there was nothing to read."""
        began_s, started_s, code = time.monotonic(), time.time(), LecternError.code
        try:
            yield
            code = OK
        except LecternError as error:
            code = error.code
            raise
        finally:
            if self._report is not None:
                job = self._job
                attributes: dict[str, Value] = {
                    "document_id": str(job.document_id),
                    "attempt": job.attempt,
                    "num_tokens": self._num_tokens,
                }
                spent_s, stages = time.monotonic() - began_s, self._report.stages()
                self._on_span(Span("reading", started_s, spent_s, attributes, stages, code))

    def _read_document(self, heartbeat: Heartbeat) -> None:
        """Build and publish the artifact, unless there is a current one already."""
        storage, job = self._storage, self._job
        document = storage.documents.find(job.document_id)
        if storage.artifacts.current(document.id) is not None:
            storage.jobs.finish(job)
            storage.notifier.notify_watchers(document.id)
            return
        self._report = report = ProgressReport(storage, job, heartbeat, self._stop, self._expect)
        path = storage.blobs.path(document.blob_key)
        try:
            with (
                storage.artifacts.draft(document.id, storage.fingerprint) as draft,
                ArtifactWriter(draft) as writer,
                self._rooms,
            ):
                built = self._builder.build(path, document.kind, report, writer)
                with self._readable(document, draft.id, built):
                    self._publish(draft, writer, built, report)
        except StorageFull:
            storage.space.free(2 * self._expected_bytes)
            raise
        self._log().info("document ready", num_tokens=built.num_tokens)
        storage.notifier.notify_watchers(document.id)

    @contextmanager
    def _readable(
        self, document: DocumentRecord, artifact_id: UUID, built: BuiltArtifact
    ) -> Iterator[None]:
        """While the block stores a document, let the server in this process be asked about it."""
        if self._residence is None or built.cache is None:
            yield
            return
        readable = ReadableDocument(
            document.id, artifact_id, built.num_tokens, built.num_pages, document.is_pinned
        )
        with self._residence.keep(readable, built.cache, self._room):
            self._storage.notifier.notify_watchers(document.id)
            yield

    def _publish(
        self,
        draft: ArtifactDraft,
        writer: ArtifactWriter,
        built: BuiltArtifact,
        report: ProgressReport,
    ) -> None:
        num_tokens = self._num_tokens = built.num_tokens
        writer.finish(lambda share: report(Phase.PACK, int(share * num_tokens), num_tokens))
        phases_ms = report.phases_ms()
        draft.publish(
            self._job,
            built.manifest,
            kv_bytes=built.kv_bytes,
            num_tokens=num_tokens,
            num_pages=built.num_pages,
            reading_ms=phases_ms.get(Phase.PREFILL, 0.0),
            phases_ms=phases_ms,
            warnings=built.warnings,
        )

    def _expect(self, num_tokens: int) -> None:
        """Move the deadline, now that the document's length is known."""
        self._deadline.expect(self._builder.expected_s(num_tokens))
        self._expected_bytes = self._builder.expected_bytes(num_tokens)
        if self._residence is not None:
            self._room = self._rooms.enter_context(self._residence.room(self._expected_bytes))
        with suppress(Transient):  # the next heartbeat will tell
            self._renew_lease()

    def _renew_lease(self) -> None:
        config = self._config
        self._storage.jobs.heartbeat(self._job, config.lease_s, self._deadline.remaining_s)

    def _watch(self) -> None:
        """Return if the work may go on.

        Raises: ReadingTimeout, TurnEnded; LeaseLost, JobCancelled or DocumentDeleted.
        """
        try:
            self._deadline.check()
        except ReadingTimeout as error:  # the work may be in a call that takes long
            self._fail(error.code, error.message)
            raise
        self._storage.jobs.check(self._job)
        elapsed_s = self._deadline.elapsed_s
        is_over = self._is_light and elapsed_s >= self._config.light_turn_s
        if is_over and elapsed_s - self._asked_s >= OTHERS_ASKED_EVERY_S:
            self._asked_s = elapsed_s
            if self._storage.jobs.do_others_wait(self._job, self._config.light_bytes):
                raise TurnEnded("Others wait.")

    def _release(
        self, *, delay_s: float = 0.0, crashed: bool = False, cost: int | None = None
    ) -> None:
        self._storage.jobs.release(self._job, delay_s=delay_s, crashed=crashed, cost=cost)
        self._storage.notifier.notify_watchers(self._job.document_id)

    def _retry_or_fail(self, code: str, message: str) -> None:
        if self._job.crashes + 1 >= self._config.max_attempts:
            self._fail(code, message)
            return
        self._write_outcome(lambda: self._release(delay_s=self._delay_s(), crashed=True))

    def _fail(self, code: str, message: str) -> None:
        self._log().info("document failed", code=code)
        fail = self._storage.jobs.fail
        self._has_failed = self._write_outcome(lambda: fail(self._job, code, message))
        self._storage.notifier.notify_watchers(self._job.document_id)

    def _write_outcome(self, write: Callable[[], None]) -> bool:
        """Write how a job ended, and return whether nothing is left to be written.

        If the database stays unavailable, the lease ends by itself.
        """
        for wait_s in OUTCOME_RETRIES_S:
            try:
                write()
                return True
            except JOB_LOST_ERRORS as error:
                self._log().info("job was taken over", reason=error.code)
                return True
            except Transient as error:
                self._log().warning("outcome not written yet", reason=error.code)
                time.sleep(wait_s)
        return False

    def _delay_s(self) -> float:
        """Return the seconds until the next try: two after the first attempt, then four, ..."""
        return min(LONGEST_DELAY_S, 2.0 ** min(self._job.attempt, 10))

    def _log(self) -> Any:
        job = self._job
        return structlog.get_logger("lectern.worker").bind(
            owner=job.lease_owner,
            job_id=str(job.id),
            document_id=str(job.document_id),
            attempt=job.attempt,
        )


def describe(error: BaseException) -> dict[str, str]:
    """Return where an error comes from, without its message, which may quote the document."""
    names = []
    cause: BaseException | None = error
    while cause is not None:
        names.append(type(cause).__name__)
        cause = cause.__cause__ or cause.__context__
    return {
        "error": " from ".join(names),
        "trace": "".join(traceback.format_tb(error.__traceback__)),
    }
