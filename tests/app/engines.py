"""Engines that answer as a test wants."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from app.services.services import Services
from engine.decode.answer import Answer, TextDelta
from engine.engine import Engine


class ScriptedEngine(Engine):
    """The engine of some services, but for how it answers."""

    def __init__(self, engine: Engine, script: Callable[..., Any]) -> None:
        super().__init__(engine.model)
        self._script = script

    def answer(self, *given: Any, **options: Any) -> Iterator[TextDelta | Answer]:
        """Call the script with the document, the question and the options."""
        found: Iterator[TextDelta | Answer] = self._script(*given, **options)
        return found


def answering(services: Services, script: Callable[..., Any]) -> Services:
    """The services with an engine that answers by a script."""
    return replace(services, engine=ScriptedEngine(services.engine, script))
