"""The engine loop: one thread answers all questions, a forward pass of many of them at a time.

Questions come in through an inbox, from any thread; text goes out to their listeners. Documents are
loaded, and whole answers put together, on a few other threads.

On a GPU the next decoding pass is launched before the tokens of the last one are known, if it is
for the same answers whatever these are (asynchronous scheduling), and else as soon as they are.
What they mean for text and listeners is worked out while it is computed.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from common.error_trace import error_trace
from common.errors import (
    CallerGone,
    EngineFault,
    LecternError,
    ShuttingDown,
    StepFailed,
)
from engine.document.cache import DocumentCache
from engine.model.memory import out_of_memory_as_busy
from engine.serving.activity import Activity
from engine.serving.pace import Pace
from engine.serving.request import AnswerRequest
from engine.serving.scheduler import Phase, Scheduled, Scheduler, Step, StepKind

if TYPE_CHECKING:  # for annotations alone
    from engine.decode.answer import TextDelta
    from engine.decode.running_answer import RunningAnswer
    from engine.engine import Engine

LOAD_S = 0.005  # that a step waits for a question whose document may be in memory
IDLE_S = 0.25  # that the loop waits for its inbox while there is nothing to do
INDEX_S, REST_S = 0.0005, 0.001  # of indexing a document's words at a time, while anybody waits
STUCK_S = 30.0  # that a forward pass may take before the loop counts as stuck
MOST_FAILURES = 3  # failed steps in a row that a loop which works may have
HELPERS = 4  # threads that load documents, and as many that put answers together
TURN_S = 0.05  # that an answer waits for others to be put together, should their database be slow
STOPPED = "The server stopped before the answer was complete."
GONE = "Nobody waits for the answer any more."
FAILED = "A forward pass failed while this question was being answered; ask again."
Result = TypeVar("Result")
# Told of each step that was taken: its kind, how many questions and tokens, and its seconds.
StepListener = Callable[[StepKind, int, int, float], None]
log = logging.getLogger("lectern.serving")


class Answering:
    """A question in the loop.

    Attributes:
        running: its answer; None until its document is there.
        has_ended: whether its listener was told that it ended, or is about to be.
    """

    def __init__(self, request: AnswerRequest) -> None:
        self.request = request
        self.running: RunningAnswer | None = None
        self.has_ended = False


Question = Scheduled[Answering]


@dataclass(frozen=True)
class _NextStep:
    """A step that was chosen while the one before was taken.

    Attributes:
        began_s: when its pass was launched, or could begin; None if that is still to be done.
        error: why it could not be launched, which is told when the step is taken.
    """

    step: Step[Answering]
    began_s: float | None = None
    error: Exception | None = None


class EngineLoop:
    """Answers questions on one thread, which alone uses the engine.

    Args:
        engine: answers; nobody else may use it while the loop runs.
        max_running: questions that are answered at the same time.
        on_step: told of every step, on the loop's thread; it must be quick and never raise.

    Attributes:
        on_prepared: called on the loop's thread when the engine is prepared, before it is ready.
        max_running: as given, but no more than a pass can take.
        activity: whether questions wait or are being answered.
        num_failed_steps: forward passes that have failed since the start.
    """

    def __init__(
        self, engine: "Engine", max_running: int, on_step: StepListener | None = None
    ) -> None:
        self._engine = engine
        self._on_step = on_step
        self.on_prepared: list[Callable[[], None]] = []
        self.max_running = min(max_running, engine.runner.max_rows)
        self.activity = Activity()
        self._pace = Pace(self.max_running)
        self._scheduler: Scheduler[Answering] = Scheduler(self.max_running, self._pace)
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._helpers = ThreadPoolExecutor(HELPERS, "answer-helper", engine.keep_to_one_thread)
        # Answers that end at once are put together one after the other: side by side, all of them
        # would be as late as the last, as Python runs one thread at a time.
        self._finishers = ThreadPoolExecutor(HELPERS, "answer-finisher", engine.keep_to_one_thread)
        self._finishing = threading.Lock()
        self._indexer = ThreadPoolExecutor(1, "word-indexer")
        self._indexing_s = 0.0  # since when it has not rested
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        # Text that is handed out while the next step is computed.
        self._undelivered: list[tuple[Question, TextDelta]] = []
        self._is_ready = self._is_closed = False
        self._present: Sequence[Question] = ()  # of the step that is being taken
        self._next: _NextStep | None = None
        self._step_began_s: float | None = None
        self._num_failures = self.num_failed_steps = 0

    def start(self) -> None:
        """Start the thread, which first prepares the engine."""
        self._thread.start()

    def close(self, timeout_s: float = 10.0) -> None:
        """Stop the thread after its present step; questions that are left are told so."""
        self._is_closed = True
        self.wake()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        self._helpers.shutdown(wait=False, cancel_futures=True)
        self._finishers.shutdown(wait=False, cancel_futures=True)
        self._indexer.shutdown(wait=False, cancel_futures=True)
        if not self._thread.is_alive():  # then what came in too late is told so here
            with suppress(queue.Empty):
                while True:
                    _do(self._inbox.get_nowait())
            self._end_all(ShuttingDown(STOPPED))

    def submit(self, request: AnswerRequest) -> None:
        """Take a question; its listener hears of all that follows."""
        self.activity.begin()
        self._inbox.put(partial(self._receive, request))

    def entered(self, key: Hashable, cache: DocumentCache) -> None:
        """A document is on the device, see `engine.residents.entry.Listener`."""
        self._inbox.put(partial(self._engine.runner.add_document, key, cache))
        with suppress(RuntimeError):  # the loop is closed
            self._indexer.submit(cache.index_words, self._make_way)

    def _make_way(self) -> None:
        """Let the indexer rest every now and then while a question waits or is being answered.

        Whoever computes in Python keeps an answer waiting at each launch of its passes.
        """
        if self.activity.is_busy and time.monotonic() - self._indexing_s > INDEX_S:
            time.sleep(REST_S)
            self._indexing_s = time.monotonic()

    def left(self, key: Hashable, cache: DocumentCache) -> None:  # noqa: ARG002
        """A document leaves the device, see `engine.residents.entry.Listener`."""
        self._inbox.put(partial(self._engine.runner.remove_document, key))

    def wake(self) -> None:
        """Let the loop look at once whether a question was cancelled."""
        self._inbox.put(lambda: None)

    def call(self, function: Callable[[], Result]) -> "Future[Result]":
        """Call something on the loop's thread, between two steps.

        Returns: what will hold its result, or EngineFault if the loop does not run.
        """
        future: Future[Result] = Future()
        if not self._thread.is_alive() or self._is_closed:
            future.set_exception(EngineFault("The engine's thread does not run."))
        else:
            self._inbox.put(partial(_call_for, future, function))
        return future

    def check(self) -> None:
        """Run a forward pass of a few tokens between two steps, and wait for it.

        Raises: what the pass raises; EngineFault if its logits are not finite or the loop does not
            run.
        """
        self.call(self._engine.check).result()
        self._num_failures = 0

    def problem(self) -> str | None:
        """Say why questions cannot be answered; None if they can."""
        if not self._thread.is_alive():
            return "The thread that answers questions does not run."
        if not self._is_ready:
            return "The engine is still being prepared."
        began_s = self._step_began_s
        if began_s is not None and time.monotonic() - began_s > STUCK_S:
            return f"A forward pass has taken more than {STUCK_S:g} seconds."
        if self._num_failures >= MOST_FAILURES:
            return f"The last {self._num_failures} forward passes have failed."
        return None

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        started_s = time.monotonic()
        try:
            self._engine.warm_up()
        except Exception as error:  # what cannot be prepared may still be computed
            log.error("preparing the engine failed: %s", error_trace(error))
        else:
            prepared_s = time.monotonic() - started_s
            log.info("the engine was prepared in %.1f s", prepared_s)
        for action in self.on_prepared:
            _do(action)
        self._is_ready = True
        while not self._is_closed:
            try:
                self._turn()
            except Exception as error:  # a fault of our own: nothing that runs can be trusted
                log.error("a turn of the engine loop failed: %s", error_trace(error))
                self._num_failures += 1
                self._next = None
                self._end_all(StepFailed(FAILED))
        self._end_all(ShuttingDown(STOPPED))

    def _turn(self) -> None:
        """Take one step: the one that was chosen already, or whatever is to be done now."""
        following, self._next = self._next, None
        if following is None:
            self._await_inbox()
            step = self._choose_step()
            following = None if step is None else _NextStep(step)
        if following is not None:
            self._take(following)

    def _choose_step(self) -> Step[Answering] | None:
        """Read the inbox, give slots, and choose a step."""
        self._read_inbox()
        for question in self._scheduler.questions():
            if question.item.request.listener.is_cancelled:
                self._end(question, CallerGone(GONE))
        admitted = self._scheduler.admit()
        for question in admitted:
            question.item.request.listener.begin()
            loading = self._helpers.submit(self._prepare, question.item.request)
            loading.add_done_callback(partial(self._post_loaded, question))
        self._await_loaded(admitted)
        return self._scheduler.next_step()

    def _await_inbox(self) -> None:
        """If there is no step to take, wait a while for what comes in, and do it."""
        if not self._scheduler.has_step:
            self._deliver()
            try:
                _do(self._inbox.get(timeout=IDLE_S))
            except queue.Empty:
                self._engine.release_idle_threads()

    def _read_inbox(self) -> None:
        """Do what came in."""
        with suppress(queue.Empty):
            while True:
                _do(self._inbox.get_nowait())

    def _await_loaded(self, admitted: list[Question]) -> None:
        """Wait a moment for documents that are in memory, so that their questions join this step.

        Otherwise whoever has just come would wait for a whole step of others.
        """
        deadline_s = time.monotonic() + LOAD_S
        while any(question.phase is Phase.LOADING for question in admitted):
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return
            with suppress(queue.Empty):
                _do(self._inbox.get(timeout=left_s))

    def _receive(self, request: AnswerRequest) -> None:
        self._scheduler.add(request.owner, Answering(request))

    def _prepare(self, request: AnswerRequest) -> "RunningAnswer":
        """Open a question's document and tokenize the question; on a helper's thread."""
        document = request.listener.open_document()
        document_key = request.listener.document_key
        if request.turns_alone and document_key is not None:
            return self._engine.prepare_turns(
                document, request.turns, budget=request.budget, document_key=document_key
            )
        return self._engine.prepare(
            document,
            request.question,
            budget=request.budget,
            sampling=request.sampling,
            turns=request.turns,
            may_drop_turns=request.may_drop_turns,
            document_key=document_key,
            mask=request.mask,
        )

    def _post_loaded(self, question: Question, loading: "Future[RunningAnswer]") -> None:
        self._inbox.put(partial(self._loaded, question, loading))

    def _loaded(self, question: Question, loading: "Future[RunningAnswer]") -> None:
        """Let a question whose document is there take part in steps."""
        if question.phase is Phase.ENDED:  # it was cancelled meanwhile
            self._hear_end(question, CallerGone(GONE))
            return
        try:
            running = loading.result()
            with out_of_memory_as_busy():
                self._engine.add(running)
            self._scheduler.loaded(question, running.num_next_chunk, id(running.document))
        except (Exception, CancelledError) as error:
            self._scheduler.remove(question)
            self._hear_end(question, error)
            return
        question.item.running = running

    def _take(self, following: _NextStep) -> None:
        """Take a step, and give everybody what came out of it."""
        step = following.step
        questions = [one for one in step.questions if not one.item.has_ended]
        self._present = questions
        rows = [one.item.running for one in questions if one.item.running is not None]
        if not rows:
            self._step_began_s = None
            return
        began_s = self._step_began_s = following.began_s or time.monotonic()
        # The first text of an answer is not kept waiting until the next pass has begun.
        advances = step.kind is StepKind.DECODE and self._engine.is_asynchronous
        try:
            if following.error is not None:
                raise following.error
            with out_of_memory_as_busy():
                found = self._engine.step(
                    rows,
                    partial(self._meanwhile, step, questions)
                    if self._engine.is_asynchronous
                    else None,
                    partial(self._advance, step, questions, began_s) if advances else None,
                )
        except Exception as failure:
            self._fail(questions, failure)
            self._present = ()
            return
        finally:
            self._step_began_s = None if self._next is None else self._next.began_s
        self._num_failures = 0
        if not advances:
            self._note(step.kind, len(questions), step.num_tokens, began_s)
        for question, running, item in zip(questions, rows, found, strict=True):
            if question.item.has_ended:  # it was cancelled while the next step was chosen
                continue
            if isinstance(item, LecternError):
                self._end(question, item)
                continue
            if item.text and not question.item.request.turns_alone:
                self._undelivered.append((question, item))
            if running.is_finished:
                self._complete(question, running)
            elif not advances:
                self._scheduler.stepped(question, running.num_next_chunk)
        if step.kind is StepKind.PREFILL or not self._engine.is_asynchronous:
            self._deliver()
        self._present = ()

    def _meanwhile(self, step: Step[Answering], questions: Sequence[Question]) -> None:
        """The device computes a step: launch what follows anyway, and hand out text."""
        goes_on = not self._engine.turns.is_reading_document and self._goes_on(step, questions)
        rows = [one.item.running for one in questions if one.item.running is not None]
        if goes_on and self._engine.can_run_ahead(rows):
            self._begin(step)
            self._scheduler.repeat(step)
        self._deliver()

    def _advance(
        self,
        step: Step[Answering],
        questions: Sequence[Question],
        began_s: float,
        failures: Sequence[LecternError | None],
    ) -> None:
        """The tokens of a decoding step are known: choose the next one, and begin its pass.

        While nobody comes or goes there is nothing to choose, and the pass begins first of all, if
        it does not run ahead already.
        """
        if self._next is not None:
            self._next = replace(self._next, began_s=time.monotonic())
        elif not any(failures) and self._goes_on(step, questions):
            self._begin(step)
            self._scheduler.repeat(step)
        self._note(step.kind, len(questions), step.num_tokens, began_s)
        for question, failure in zip(questions, failures, strict=True):
            running = question.item.running
            if failure is not None or running is None or running.is_finished:
                self._scheduler.remove(question)
        if self._next is not None:
            return
        for question in questions:
            self._scheduler.stepped(question, 0)  # those that go on
        following = self._choose_step()
        if following is None:
            return
        if following.kind is StepKind.DECODE:
            self._begin(following)
        else:
            self._next = _NextStep(following)

    def _goes_on(self, step: Step[Answering], questions: Sequence[Question]) -> bool:
        """Whether the step that is being taken is the next one, too, as far as is known."""

        def goes_on(question: Question) -> bool:
            item = question.item
            is_wanted = not item.request.listener.is_cancelled
            return is_wanted and item.running is not None and not item.running.is_finished

        return (
            self._inbox.empty()
            and all(map(goes_on, questions))
            and self._scheduler.can_repeat(step)
        )

    def _begin(self, step: Step[Answering]) -> None:
        """Launch the pass of the next step, a decoding one, unless it takes turns with reading."""
        self._next = _NextStep(step)
        if self._engine.turns.is_reading_document:
            return
        rows = [one.item.running for one in step.questions if one.item.running is not None]
        launched_s = time.monotonic()
        try:
            with out_of_memory_as_busy():
                self._engine.begin_decode(rows)
        except Exception as error:
            self._next = _NextStep(step, launched_s, error)
        else:
            self._next = _NextStep(step, launched_s)

    def _note(self, kind: StepKind, num_questions: int, num_tokens: int, began_s: float) -> None:
        """A step was taken; learn from its time, and tell who listens."""
        spent_s = time.monotonic() - began_s
        note = self._pace.note_prefill if kind is StepKind.PREFILL else self._pace.note_decode
        note(num_tokens, spent_s)
        if self._on_step is not None:
            self._on_step(kind, num_questions, num_tokens, spent_s)

    def _deliver(self) -> None:
        """Hand out text that is still to be delivered."""
        undelivered, self._undelivered = self._undelivered, []  # even if a listener fails
        for question, text in undelivered:
            question.item.request.listener.deliver(text)

    def _fail(self, questions: Sequence[Question], error: Exception) -> None:
        """A step failed: what its questions have computed so far cannot be trusted."""
        if not isinstance(error, LecternError):
            log.error("a forward pass failed: %s", error_trace(error))
            self._num_failures += 1
            self.num_failed_steps += 1
        told = error if isinstance(error, LecternError) else StepFailed(FAILED)
        for question in questions:
            self._end(question, told)

    def _complete(self, question: Question, running: "RunningAnswer") -> None:
        """An answer has its last token: the rest is done on another thread."""
        self._deliver()
        question.item.has_ended = True
        self._scheduler.remove(question)
        self._engine.finish(running)
        finishing = self._finishers.submit(self._deliver_answer, question.item, running)
        finishing.add_done_callback(partial(self._completed, question))

    def _completed(self, question: Question, finishing: "Future[None]") -> None:
        error = CancelledError() if finishing.cancelled() else finishing.exception()
        self._hear_end(question, error)

    def _deliver_answer(self, conversation: Answering, running: "RunningAnswer") -> None:
        request, listener = conversation.request, conversation.request.listener
        if request.turns_alone:
            running.keep_turns(num_turns=len(request.turns))
            return
        if (rest := running.flush()).text:
            listener.deliver(rest)
        has_turn = self._finishing.acquire(timeout=TURN_S)
        try:
            listener.deliver(running.result())
        finally:
            if has_turn:
                self._finishing.release()

    def _end(self, question: Question, error: LecternError) -> None:
        """End a question before its answer is complete; nothing if it has ended."""
        self._deliver()
        if question.item.has_ended:
            return
        question.item.has_ended = True
        is_loading = question.phase is Phase.LOADING
        self._scheduler.remove(question)
        if question.item.running is not None:
            self._engine.finish(question.item.running)
        if not is_loading:  # else it still holds its document, see `_loaded`
            self._hear_end(question, error)

    def _end_all(self, error: LecternError) -> None:
        for question in (*self._scheduler.questions(), *self._present):
            with suppress(Exception):
                self._end(question, error)
        self._present = ()

    def _hear_end(self, question: Question, error: BaseException | None) -> None:
        """Tell a listener that this was all; what it submits then follows without a break."""
        if error is not None and not isinstance(error, Exception):
            error = ShuttingDown(STOPPED)  # its helper was cancelled
        try:
            question.item.request.listener.end(error)
        except Exception:  # the loop goes on, whatever becomes of one caller
            log.exception("a listener failed")
        self.activity.end()


def _do(action: Callable[[], None]) -> None:
    """Do what came in through the inbox; a fault in it ends nothing else."""
    try:
        action()
    except Exception as error:
        log.error("an action of the engine's inbox failed: %s", error_trace(error))


def _call_for(future: "Future[Result]", function: Callable[[], Result]) -> None:
    try:
        future.set_result(function())
    except Exception as error:
        future.set_exception(error)
