"""Engines that answer as a script says."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from app.services.services import Services
from engine.decode.answer import Answer, TextDelta
from engine.engine import Engine


class ScriptedEngine(Engine):
    """An engine whose answers come from a script."""

    def __init__(self, engine: Engine, script: Callable[..., Any]) -> None:
        super().__init__(engine.model)
        self._script = script

    def answer(self, *arguments: Any, **options: Any) -> Iterator[TextDelta | Answer]:
        """Call the script with the document, the question and the options."""
        items: Iterator[TextDelta | Answer] = self._script(*arguments, **options)
        return items


def with_script(services: Services, script: Callable[..., Any]) -> Services:
    """Return services whose engine answers by a script."""
    return replace(services, engine=ScriptedEngine(services.engine, script))
