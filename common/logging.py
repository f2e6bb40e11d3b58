"""Structured logs. They contain ids, but never the text of documents, questions or answers."""

import asyncio
import logging
import sys
import threading
from typing import Any

import structlog

from common.error_trace import error_trace
from common.line_budget import LineBudget

OURS = "lectern"  # the names of all loggers of this project begin with this
TALKATIVE = {
    "uvicorn": logging.INFO,  # start and stop
    "alembic": logging.WARNING,  # it logs every migration check
    "python_multipart": logging.CRITICAL,  # it quotes the body that it could not parse
}


def configure(level: str = "INFO", *, as_json: bool = False) -> None:
    """Send all log lines of this process to standard error; to be called once, at the start.

    Args:
        level: lines of this project below this level are left out. Of other libraries only warnings
            are shown, whatever the level, because below that they quote what they work on.
        as_json: whether each line is a JSON object, for programs, instead of text for people.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _trace_errors,
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        foreign_pre_chain=shared,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    handler.addFilter(_RepeatFilter())
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.getLogger().setLevel(max(logging.WARNING, logging.getLogger().level))
    logging.getLogger(OURS).setLevel(level)
    for name, least in TALKATIVE.items():
        logging.getLogger(name).setLevel(max(least, logging.getLogger(OURS).level))
    threading.excepthook = _log_thread_error
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def log_loop_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that reached the event loop; asyncio's own handler quotes arguments."""
    what = str(context.get("message", "Error"))
    if " callback " in what:  # it goes on with the arguments of the call
        what = what.partition(" callback ")[0] + " callback"
    logging.getLogger("asyncio").error(what, exc_info=context.get("exception"))


def _log_thread_error(crash: threading.ExceptHookArgs) -> None:
    log = structlog.get_logger("lectern.process")
    name = None if crash.thread is None else crash.thread.name
    log.error("a thread has ended with an error", thread=name, exc_info=crash.exc_value)


def _trace_errors(_: Any, __: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Replace an exception by its types and places, without messages and local variables."""
    found = line.pop("exc_info", None)
    if found is True:
        found = sys.exc_info()
    error = found[1] if isinstance(found, tuple) else found
    if isinstance(error, BaseException):
        line["exception"] = error_trace(error)
    return line


class _RepeatFilter(logging.Filter):
    """Leaves out lines of other libraries that are repeated too often, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self._budget = LineBudget[tuple[str, int, str]]()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.split(".")[0] == OURS:
            return True
        left_out = self._budget.take((record.name, record.levelno, str(record.msg)))
        if left_out:
            record.msg = f"{record.msg} (and {left_out} more of these before)"
        return left_out is not None
