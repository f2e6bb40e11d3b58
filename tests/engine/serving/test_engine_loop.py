"""The engine loop: questions join and leave at any token, and none harms another."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest
import torch
from torch import Tensor

from common.errors import (
    CallerGone,
    DocumentDeleted,
    EmptyQuestion,
    EngineFault,
    GpuBusy,
    NonFiniteNumbers,
    ShuttingDown,
    StepFailed,
)
from common.owner import Owner
from engine.config import DecodeConfig
from engine.decode.answer import Answer, TextDelta
from engine.decode.batch_runner import BatchRunner
from engine.decode.graph_runner import GraphRunner
from engine.decode.running_answer import PrefillChunk, RunningAnswer
from engine.decode.sampling import Sampling
from engine.decode.turn_states import DocumentKey
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.loader import LoadedModel
from engine.serving.engine_loop import EngineLoop
from engine.serving.request import AnswerRequest
from tests.models import FAMILIES, loaded, prose, read

WAIT_S = 60.0
QUESTIONS = (
    "Who sold the maps?",
    "Where are the lamps kept?",
    "How many?",
    "Who counted the letters?",
)


@pytest.fixture(autouse=True, params=["CPU", "GPU"])
def on_gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """As on a CPU, and as on a GPU, where passes begin before they are asked for."""
    monkeypatch.setattr(Engine, "is_asynchronous", request.param == "GPU")
    return bool(request.param == "GPU")


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


@pytest.fixture(scope="module")
def documents(model: LoadedModel) -> list[DocumentCache]:
    return [read(model, prose(chars, seed=chars)) for chars in (300, 500, 700)]


class Listener:
    """Collects what it hears."""

    document_key: DocumentKey | None = None

    def __init__(self, open_document: Callable[[], DocumentCache]) -> None:
        self.open = open_document
        self.is_cancelled = False
        self.begun = threading.Event()
        self.spoken = threading.Semaphore(0)
        self.ended = threading.Event()
        self.text, self.answer, self.error = "", None, None

    text: str
    answer: Answer | None
    error: Exception | None

    def begin(self) -> None:
        self.begun.set()

    def open_document(self) -> DocumentCache:
        return self.open()

    def deliver(self, item: TextDelta | Answer) -> None:
        if isinstance(item, TextDelta):
            self.text += item.text
            self.spoken.release()
        else:
            self.answer = item

    def end(self, error: Exception | None) -> None:
        assert not self.ended.is_set(), "it ends once"
        self.error = error
        self.ended.set()

    def result(self) -> Answer:
        """Wait for the whole answer."""
        assert self.ended.wait(WAIT_S)
        if self.error is not None:
            raise self.error
        assert self.answer is not None
        assert self.answer.text == self.text
        return self.answer


class Runner(GraphRunner):
    """A runner that waits, fails or computes nonsense when it is told to."""

    def __init__(self, model: LoadedModel) -> None:
        super().__init__(model, DecodeConfig())
        self.held = threading.Event()  # set: passes go on
        self.held.set()
        self.fails: list[BaseException] = []
        self.is_undefined = False
        self.rows: list[int] = []
        self.begun: tuple[Sequence[RunningAnswer], Tensor] | None = None
        self.num_begun = 0
        self.added: set[RunningAnswer] = set()
        self.documents: dict[object, DocumentCache] = {}

    def add(self, running: RunningAnswer) -> None:
        super().add(running)
        self.added.add(running)

    def remove(self, running: RunningAnswer) -> None:
        super().remove(running)
        self.added.remove(running)

    def add_document(self, key: object, document: DocumentCache) -> None:
        self.documents[key] = document

    def remove_document(self, key: object) -> None:
        del self.documents[key]

    def prefill(self, chunks: Sequence[PrefillChunk]) -> Tensor:
        self._wait()
        return super().prefill(chunks)

    def begin_decode(self, rows: Sequence[RunningAnswer], tokens: Tensor | None = None) -> None:
        assert tokens is None, "it never runs ahead"
        assert self.begun is None, "what was begun is taken first"
        self.begun = rows, self.decode(rows)
        self.num_begun += 1

    def decode(self, rows: Sequence[RunningAnswer]) -> Tensor:
        if self.begun is not None:
            (begun, logits), self.begun = self.begun, None
            assert list(rows) == list(begun)
            return logits
        self._wait()
        self.rows.append(len(rows))
        logits = super().decode(rows)
        return logits * float("nan") if self.is_undefined else logits

    def _wait(self) -> None:
        assert self.held.wait(WAIT_S)
        if self.fails:
            raise self.fails.pop()


@dataclass
class Served:
    """A loop over a tiny model."""

    loop: EngineLoop
    runner: Runner
    documents: Sequence[DocumentCache]
    asked: list[Listener] = field(default_factory=list)

    def ask(
        self,
        number: int = 0,
        *,
        key: str = "key",
        max_tokens: int = 12,
        document: Callable[[], DocumentCache] | None = None,
        question: str | None = None,
        budget: float = 0.6,
        **sampling: object,
    ) -> Listener:
        chosen = self.documents[number % len(self.documents)]
        listener = Listener(document or (lambda: chosen))
        text = QUESTIONS[number % len(QUESTIONS)] if question is None else question
        how = Sampling(max_tokens=max_tokens, **sampling)  # type: ignore[arg-type]
        self.loop.submit(AnswerRequest(Owner("tenant", key), text, budget, how, listener))
        self.asked.append(listener)
        return listener

    def check_idle(self) -> None:
        """Nothing is left of any question."""
        assert self.loop.activity.wait_until_idle(WAIT_S)
        assert self.runner.added == set()
        assert all(one.ended.is_set() for one in self.asked)


@pytest.fixture
def serve(model: LoadedModel, documents: list[DocumentCache]) -> Iterator[Callable[..., Served]]:
    loops: list[Served] = []

    def make(max_running: int = 64) -> Served:
        runner = Runner(model)
        loop = EngineLoop(Engine(model, runner=runner), max_running)
        loop.start()
        loops.append(Served(loop, runner, documents))
        return loops[-1]

    yield make
    for served in loops:
        served.runner.held.set()
        served.loop.close()


def alone(model: LoadedModel, document: DocumentCache, number: int, **sampling: object) -> Answer:
    how = Sampling(**{"max_tokens": 12, **sampling})  # type: ignore[arg-type]
    *_, last = Engine(model).answer(
        document, QUESTIONS[number % len(QUESTIONS)], budget=0.6, sampling=how
    )
    assert isinstance(last, Answer)
    return last


def test_what_follows_the_preparation_comes_before_the_loop_is_ready(model: LoadedModel) -> None:
    loop = EngineLoop(Engine(model), 1)
    problems: list[str | None] = []

    def note_and_fail() -> None:
        problems.append(loop.problem())
        raise RuntimeError("It fails.")

    loop.on_prepared.append(note_and_fail)
    loop.start()
    try:
        loop.check()
        assert problems == ["The engine is still being prepared."]
        assert loop.problem() is None
    finally:
        loop.close()


def test_answers_in_a_crowd_are_those_alone(
    model: LoadedModel, documents: list[DocumentCache], serve: Callable[..., Served]
) -> None:
    served = serve()
    served.runner.held.clear()  # so that all are there
    how = [{}, {"temperature": 1.5, "seed": 3}, {"max_tokens": 5}, {"temperature": 0.7, "seed": 9}]
    asked = [served.ask(number, key=str(number), **how[number % 4]) for number in range(12)]
    served.runner.held.set()
    for number, listener in enumerate(asked):
        found = listener.result()
        wanted = alone(model, documents[number % 3], number, **how[number % 4])
        assert found.text == wanted.text
        assert found.finish_reason == wanted.finish_reason
        assert found.budget == wanted.budget
        assert found.usage == wanted.usage
        assert [one.quote for one in found.evidence] == [one.quote for one in wanted.evidence]
    assert max(served.runner.rows) > 4, "they shared passes"
    served.check_idle()


class Batches(BatchRunner):
    """Passes by tables, of which those that were launched before their tokens were known count."""

    num_ahead = 0

    def begin_decode(self, rows: Sequence[RunningAnswer], tokens: Tensor | None = None) -> None:
        if tokens is not None:
            self.num_ahead += 1
        super().begin_decode(rows, tokens)


def test_passes_that_run_ahead_change_no_answer(
    model: LoadedModel, documents: list[DocumentCache], on_gpu: bool
) -> None:
    stop = (alone(model, documents[0], 3, max_tokens=40).text[10:14],)
    how: list[dict[str, object]] = [
        {"max_tokens": 40},
        {"max_tokens": 40, "temperature": 0.7, "seed": 9},
        {"max_tokens": 20},
        {"max_tokens": 40, "stop": stop},  # nobody knows in advance where it ends
    ]
    runner = Batches(model, DecodeConfig(), max_rows=4)  # as many as a step takes on any machine
    loop = EngineLoop(Engine(model, runner=runner), 4)
    served = Served(loop, runner, documents)
    asked = [served.ask(number, key=str(number), **each) for number, each in enumerate(how)]
    loop.start()
    try:
        for number, listener in enumerate(asked):
            found = listener.result()
            wanted = alone(model, documents[number % 3], number, **how[number])
            assert found.text == wanted.text
            assert found.finish_reason == wanted.finish_reason
            assert found.budget == wanted.budget
            assert found.usage == wanted.usage
            for mine, other in zip(found.evidence, wanted.evidence, strict=True):
                assert mine.quote == other.quote
                assert mine.weight == pytest.approx(other.weight, abs=2e-4)
            assert len(found.sentences) == len(wanted.sentences)
    finally:
        loop.close()
    assert runner.num_ahead > 20 if on_gpu else runner.num_ahead == 0
    assert len(runner._free_pages) == len(runner._pool[0, 0])


def test_passes_begin_when_the_tokens_of_the_last_one_are_known(
    serve: Callable[..., Served], on_gpu: bool
) -> None:
    served = serve()
    assert served.ask(max_tokens=6).result().usage.completion_tokens == 6
    assert len(served.runner.rows) == 5
    # But for the first one, before which the first token is told.
    assert served.runner.num_begun == (4 if on_gpu else 0)
    served.check_idle()


def test_tokens_without_a_text_end_their_questions_and_the_loop_goes_on(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    read_text, fails = RunningAnswer.read, threading.Event()

    def read_or_fail(running: RunningAnswer) -> TextDelta:
        if fails.is_set():
            raise RuntimeError("no text")
        return read_text(running)

    monkeypatch.setattr(RunningAnswer, "read", read_or_fail)
    crowd = [served.ask(number, max_tokens=500) for number in range(3)]
    assert crowd[0].spoken.acquire(timeout=WAIT_S)
    fails.set()
    for listener in crowd:
        with pytest.raises(StepFailed):
            listener.result()
    fails.clear()
    served.runner.begun = None  # what a runner does with a pass that nobody asks for
    assert served.ask(1).result().usage.completion_tokens == 12
    served.check_idle()


def test_a_question_joins_while_another_is_answered(serve: Callable[..., Served]) -> None:
    served = serve()
    first = served.ask(max_tokens=500)
    assert first.spoken.acquire(timeout=WAIT_S)
    assert served.ask(1).result().usage.completion_tokens == 12
    assert not first.ended.is_set()
    first.is_cancelled = True
    served.loop.wake()
    with pytest.raises(CallerGone):
        first.result()
    served.check_idle()


@pytest.mark.parametrize("when", ["waiting", "loading", "running"])
def test_a_cancelled_question_leaves_within_a_step(serve: Callable[..., Served], when: str) -> None:
    served = serve(max_running=1)
    is_loaded = threading.Event()

    def load() -> DocumentCache:
        assert when != "loading" or is_loaded.wait(WAIT_S)
        return served.documents[0]

    if when == "waiting":
        first = served.ask(max_tokens=500)
        assert first.begun.wait(WAIT_S)
    listener = served.ask(max_tokens=500, document=load)
    if when == "loading":
        assert listener.begun.wait(WAIT_S)
    if when == "running":
        assert listener.spoken.acquire(timeout=WAIT_S)
    listener.is_cancelled = True
    served.loop.wake()
    if when == "loading":  # its slot is free at once, its end comes with its document
        assert served.ask(1).result()
        assert not listener.ended.is_set()
        is_loaded.set()
    with pytest.raises(CallerGone):
        listener.result()
    if when == "waiting":
        assert not listener.begun.is_set()
        first.is_cancelled = True
    assert served.ask(1).result()
    served.check_idle()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("a kernel failed"), StepFailed),
        (DocumentDeleted("gone"), DocumentDeleted),
    ],
)
def test_a_step_that_throws_ends_its_questions_and_the_loop_goes_on(
    serve: Callable[..., Served], error: Exception, told: type[Exception]
) -> None:
    served = serve()
    served.runner.held.clear()
    crowd = [served.ask(number, max_tokens=50) for number in range(3)]
    served.runner.fails.append(error)
    served.runner.held.set()
    ends = [one.ended.wait(WAIT_S) and type(one.error) for one in crowd]
    assert told in ends  # those of the step; others may have come later
    assert set(ends) <= {told, type(None)}
    assert served.ask(1).result().usage.completion_tokens == 12
    assert served.loop.problem() is None
    served.check_idle()


def test_memory_that_runs_out_is_told_as_such(serve: Callable[..., Served]) -> None:
    served = serve()
    served.runner.fails.append(torch.OutOfMemoryError("CUDA out of memory."))
    with pytest.raises(GpuBusy):
        served.ask().result()
    served.check_idle()


def test_failures_in_a_row_are_a_problem_until_a_pass_succeeds(
    serve: Callable[..., Served],
) -> None:
    served = serve()
    for _ in range(3):
        served.runner.fails.append(RuntimeError("a kernel failed"))
        with pytest.raises(StepFailed):
            served.ask().result()
    assert "3 forward passes have failed" in str(served.loop.problem())
    served.loop.check()
    assert served.loop.problem() is None


def test_undefined_logits_end_their_own_question(serve: Callable[..., Served]) -> None:
    served = serve()
    served.runner.is_undefined = True
    with pytest.raises(NonFiniteNumbers):
        served.ask().result()
    served.check_idle()


def test_what_cannot_be_prepared_is_told(serve: Callable[..., Served]) -> None:
    def gone() -> DocumentCache:
        raise DocumentDeleted("gone")

    served = serve()
    with pytest.raises(DocumentDeleted):
        served.ask(document=gone).result()
    with pytest.raises(EmptyQuestion):
        served.ask(question=" ").result()
    assert served.ask().result()
    served.check_idle()


def test_a_slow_document_keeps_nobody_else(serve: Callable[..., Served]) -> None:
    served, is_loaded = serve(), threading.Event()

    def load() -> DocumentCache:
        assert is_loaded.wait(WAIT_S)
        return served.documents[0]

    slow = served.ask(document=load)
    assert served.ask(1).result()
    is_loaded.set()
    assert slow.result()


def test_a_paused_question_goes_on_as_if_nothing_had_been(
    model: LoadedModel, documents: list[DocumentCache], serve: Callable[..., Served]
) -> None:
    served = serve(max_running=3)
    greedy = [served.ask(number, key="greedy", max_tokens=60) for number in range(3)]
    assert all(one.spoken.acquire(timeout=WAIT_S) for one in greedy)
    modest = served.ask(1, key="modest", max_tokens=2)
    assert modest.result().usage.completion_tokens == 2
    assert not all(one.ended.is_set() for one in greedy)
    for number, one in enumerate(greedy):
        assert one.result().text == alone(model, documents[number], number, max_tokens=60).text
    served.check_idle()


def test_stop_strings_and_limits_end_an_answer(
    model: LoadedModel, documents: list[DocumentCache], serve: Callable[..., Served]
) -> None:
    served = serve()
    whole = served.ask(max_tokens=20).result()
    assert (whole.finish_reason, whole.usage.completion_tokens) == ("length", 20)
    stop = whole.text[5:7]
    found = served.ask(max_tokens=20, stop=(stop,)).result()
    assert found.finish_reason == "stop"
    assert found.text == whole.text[: whole.text.index(stop)]


def test_closing_tells_everybody(serve: Callable[..., Served]) -> None:
    served = serve(max_running=1)
    running, waiting = served.ask(max_tokens=500), served.ask(1)
    assert running.spoken.acquire(timeout=WAIT_S)
    served.loop.close()
    late = served.ask(1)
    served.loop.close()
    for listener in (running, waiting, late):
        with pytest.raises(ShuttingDown):
            listener.result()
    assert "does not run" in str(served.loop.problem())
    with pytest.raises(EngineFault):
        served.loop.check()
    served.check_idle()


def test_a_pass_that_does_not_end_is_a_problem(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.serving.engine_loop.STUCK_S", 0.0)
    served = serve()
    served.runner.held.clear()
    listener = served.ask()
    deadline_s = time.monotonic() + WAIT_S
    while "forward pass has taken" not in str(served.loop.problem()):
        assert time.monotonic() < deadline_s
        time.sleep(0.005)
    served.runner.held.set()
    assert listener.result()


def test_work_that_makes_way_learns_whether_anybody_waits(serve: Callable[..., Served]) -> None:
    served = serve()
    assert not served.loop.activity.is_busy
    served.runner.held.clear()
    listener = served.ask()
    assert served.loop.activity.is_busy
    assert not served.loop.activity.wait_until_idle(0.01)
    served.runner.held.set()
    assert listener.result()
    assert served.loop.activity.wait_until_idle(WAIT_S)


def test_the_runner_hears_of_documents_between_steps(serve: Callable[..., Served]) -> None:
    served = serve()
    served.loop.entered("artifact", served.documents[0])
    served.loop.call(lambda: None).result(WAIT_S)
    assert served.runner.documents == {"artifact": served.documents[0]}
    served.loop.left("artifact", served.documents[0])
    served.loop.call(lambda: None).result(WAIT_S)
    assert served.runner.documents == {}


@pytest.mark.parametrize("is_asynchronous", [False, True])
def test_a_listener_that_fails_ends_no_later_answer(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch, is_asynchronous: bool
) -> None:
    def fail(_: TextDelta | Answer) -> None:
        raise RuntimeError("nobody listens")

    monkeypatch.setattr(Engine, "is_asynchronous", is_asynchronous)
    served = serve()
    served.runner.held.clear()  # so that it fails from the first text on
    broken = served.ask()
    monkeypatch.setattr(broken, "deliver", fail)
    served.runner.held.set()
    assert broken.ended.wait(WAIT_S)
    assert served.ask(1).result().usage.completion_tokens == 12
    served.check_idle()


def test_a_listener_that_fails_while_a_pass_runs_ahead_harms_no_later_answer(
    model: LoadedModel, documents: list[DocumentCache], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Batches(model, DecodeConfig(), max_rows=2)
    loop = EngineLoop(Engine(model, runner=runner), 2)
    served, texts = Served(loop, runner, documents), 0
    broken = served.ask(max_tokens=40)

    def fail_later(_: TextDelta | Answer) -> None:
        nonlocal texts
        texts += 1
        if texts > 4:
            raise RuntimeError("nobody listens")

    monkeypatch.setattr(broken, "deliver", fail_later)
    loop.start()
    try:
        assert broken.ended.wait(WAIT_S)
        assert served.ask(1).result().text == alone(model, documents[1], 1).text
    finally:
        loop.close()
    assert len(runner._free_pages) == len(runner._pool[0, 0])


def test_words_of_a_document_are_indexed_before_an_answer_looks_them_up(
    serve: Callable[..., Served],
) -> None:
    served = serve()
    document = replace(served.documents[0])  # without what was made of it
    served.loop.entered("artifact", document)
    deadline = time.monotonic() + WAIT_S
    while "lexical" not in vars(document) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "lexical" in vars(document)


def test_indexing_words_makes_way_for_questions(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    served.runner.held.clear()
    asked = served.ask()
    assert asked.begun.wait(WAIT_S)
    document, rests = replace(served.documents[2]), list[float]()
    monkeypatch.setattr("engine.serving.engine_loop.INDEX_S", 0.0)
    monkeypatch.setattr("engine.serving.engine_loop.time.sleep", rests.append)
    document.index_words(served.loop._make_way)
    assert len(rests) >= len(document.structure.passages)
    served.runner.held.set()
    asked.result()
    assert document.lexical.scores("maps").shape == (len(document.structure.passages),)
