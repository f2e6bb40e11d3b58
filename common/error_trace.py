"""Where an error comes from, told without anything that could quote a document or a question."""

import traceback
from collections.abc import Iterator

from common.errors import LecternError

MAX_FRAMES = 30
MAX_CAUSES = 10


def error_trace(error: BaseException) -> str:
    """Return the types and places of an error and its causes, the error itself first.

    Neither messages nor local variables are told, because they may quote anything.
    """
    return "\n".join(_lines(error, MAX_CAUSES))


def error_types(error: BaseException) -> str:
    """Return the types of an error and its causes, on one line."""
    return " from ".join(type(cause).__name__ for cause in _causes(error))


def _lines(error: BaseException, max_causes: int) -> Iterator[str]:
    for number, cause in enumerate(_causes(error)):
        yield f"from {_name(cause)}" if number else _name(cause)
        for frame in traceback.extract_tb(cause.__traceback__, limit=-MAX_FRAMES):
            yield f"  {frame.filename}:{frame.lineno} in {frame.name}"
        if isinstance(cause, BaseExceptionGroup) and max_causes > 0:
            for part in cause.exceptions[:max_causes]:
                yield from (f"  | {line}" for line in _lines(part, max_causes - 1))


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    for _ in range(MAX_CAUSES):
        if cause is None:
            return
        yield cause
        hidden = None if cause.__suppress_context__ else cause.__context__
        cause = cause.__cause__ or hidden


def _name(error: BaseException) -> str:
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    return f"{name} ({error.code})" if isinstance(error, LecternError) else name
