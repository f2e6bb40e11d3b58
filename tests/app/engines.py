"""Engines that answer as a script says."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from app.services.services import Services, make_services
from common.errors import CallerGone, LecternError
from engine.attend.budget import BudgetReport
from engine.decode.answer import Answer, TextDelta, Usage
from engine.decode.running_answer import RunningAnswer
from engine.engine import Engine

Script = Iterator[TextDelta | Answer]


def answer_of(text: str) -> Answer:
    """A whole answer."""
    return Answer(
        text=text,
        finish_reason="stop",
        evidence=(),
        budget=BudgetReport(1.0, 1.0, 1.0, 1.0, 1.0, raised=False),
        usage=Usage(10, 2, 3, 100, 100),
        timings_ms={"question_prefill": 1.0, "first_token": 1.0, "decode": 1.0, "total": 2.0},
    )


class ScriptedAnswer:
    """An answer whose steps are the items of a script; the last one is the whole answer."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.is_finished = False
        self.document = None
        self.num_next_chunk = 1  # until its first step
        self.state = SimpleNamespace(document=None)
        self._answer: Answer | None = None

    def step(self) -> TextDelta:
        """Take the next item."""
        self.num_next_chunk = 0
        item = next(self.script)
        if isinstance(item, TextDelta):
            return item
        self._answer, self.is_finished = item, True
        return TextDelta("")

    def flush(self) -> TextDelta:
        """Nothing is held back."""
        return TextDelta("")

    def result(self) -> Answer:
        """The last item."""
        assert self._answer is not None
        return self._answer


class ScriptedEngine(Engine):
    """An engine whose answers come from a script: a generator, which is closed when they end.

    A script that waits for something yields empty text meanwhile, or it would keep the loop.
    """

    def __init__(self, engine: Engine, script: Callable[..., Any]) -> None:
        super().__init__(engine.model)
        self._script = script

    def prepare(self, *arguments: Any, mask: Any = None, **options: Any) -> RunningAnswer:
        """Call the script with the document, the question and the options."""
        return cast(RunningAnswer, ScriptedAnswer(self._script(*arguments, **options)))

    def prepare_turns(self, *arguments: Any, **options: Any) -> RunningAnswer:
        """Nothing is kept."""
        raise CallerGone("A script has no turns.")

    def add(self, running: RunningAnswer) -> None:
        """Nothing is prepared."""

    def step(
        self,
        rows: Sequence[RunningAnswer],
        meanwhile: Callable[[], None] | None = None,
        on_tokens: Callable[[Sequence[LecternError | None]], None] | None = None,
    ) -> list[TextDelta | LecternError]:
        """Take an item of each script."""
        assert meanwhile is None  # nothing is computed on a device
        assert on_tokens is None
        return [cast(ScriptedAnswer, row).step() for row in rows]

    def finish(self, running: RunningAnswer) -> None:
        """Close the script."""
        cast(Any, running).script.close()


def with_script(services: Services, script: Callable[..., Any]) -> Services:
    """Return services whose engine answers by a script."""
    engine = ScriptedEngine(services.engine, script)
    made = make_services(services.config, services.data_dir, services.storage, engine)
    return replace(
        made,
        resident_documents=services.resident_documents,
        document_loader=services.document_loader,
    )
