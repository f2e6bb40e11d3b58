"""Log lines."""

import asyncio
import gc
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import structlog

from common.line_budget import MAX_LINES
from common.logging import OURS, TALKATIVE, configure, log_loop_error


@contextmanager
def restored_logging() -> Iterator[None]:
    """Leave the process's logging as it was."""
    root, excepthook = logging.getLogger(), threading.excepthook
    handlers = root.handlers[:]
    loggers = [root, *map(logging.getLogger, (OURS, *TALKATIVE))]
    levels = [logger.level for logger in loggers]
    try:
        yield
    finally:
        root.handlers[:] = handlers
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        threading.excepthook = excepthook
        structlog.reset_defaults()


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    with restored_logging():
        yield


def test_json_lines_carry_event_level_time_and_ids(capsys: pytest.CaptureFixture[str]) -> None:
    configure("INFO", as_json=True)
    structlog.stdlib.get_logger("lectern").info("document_ready", document_id="d1")
    shown = capsys.readouterr()
    assert shown.out == ""
    line = json.loads(shown.err)
    assert (line["event"], line["level"], line["document_id"]) == ("document_ready", "info", "d1")
    assert line["timestamp"].endswith("Z")


def test_lines_of_other_libraries_look_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    configure("INFO", as_json=True)
    logging.getLogger("uvicorn").warning("shutting %s", "down")
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["level"]) == ("shutting down", "warning")


def test_lines_below_the_level_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    configure("WARNING", as_json=True)
    structlog.stdlib.get_logger("lectern").info("not_now")
    logging.getLogger("other").info("nor this")
    assert capsys.readouterr().err == ""


def test_context_stands_in_every_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure("INFO", as_json=True)
    with structlog.contextvars.bound_contextvars(request_id="r1"):
        structlog.stdlib.get_logger("lectern").info("asked")
    assert json.loads(capsys.readouterr().err)["request_id"] == "r1"


def test_configuring_twice_does_not_write_twice(capsys: pytest.CaptureFixture[str]) -> None:
    configure("INFO", as_json=True)
    configure("INFO", as_json=True)
    structlog.stdlib.get_logger("lectern").info("once")
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_people_get_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    configure("INFO")
    structlog.stdlib.get_logger("lectern").info("document_ready", document_id="d1")
    shown = capsys.readouterr().err
    assert "document_ready" in shown
    assert "d1" in shown


CANARY = "canary-plover"


def fail(text: str) -> None:
    """Raise an error that quotes a text, which a local variable holds as well."""
    held = [text]
    raise ValueError(f"cannot read {held}")


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("ours", [True, False], ids=["ours", "another library's"])
def test_a_trace_tells_types_and_places_but_no_text(
    capsys: pytest.CaptureFixture[str], as_json: bool, ours: bool
) -> None:
    configure("INFO", as_json=as_json)
    log = structlog.get_logger("lectern.http") if ours else logging.getLogger("some.library")
    try:
        fail(CANARY)
    except ValueError as error:
        log.warning("it failed", exc_info=True)
        log.error("it failed again", exc_info=error)
    shown = capsys.readouterr().err
    assert CANARY not in shown
    assert shown.count(" in fail") == shown.count("ValueError") == 2
    if as_json:
        for line in map(json.loads, shown.splitlines()):
            assert line["exception"].startswith("ValueError\n  ")


def test_errors_of_the_event_loop_quote_no_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    configure("INFO", as_json=True)

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(log_loop_error)
        asyncio.get_running_loop().call_soon(fail, CANARY)
        task = asyncio.create_task(asyncio.to_thread(fail, CANARY))
        await asyncio.wait([task])
        del task

    asyncio.run(run())
    gc.collect()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == [
        "Exception in callback",
        "Task exception was never retrieved",
    ]
    assert all(" in fail" in line["exception"] for line in lines)
    assert CANARY not in repr(lines)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_is_told_without_text(capsys: pytest.CaptureFixture[str]) -> None:
    configure("INFO", as_json=True)
    thread = threading.Thread(target=fail, args=(CANARY,), name="reader")
    thread.start()
    thread.join()
    line = json.loads(capsys.readouterr().err)
    assert (line["thread"], CANARY in repr(line)) == ("reader", False)
    assert " in fail" in line["exception"]


def test_what_another_library_repeats_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    configure("INFO", as_json=True)
    for _ in range(500):
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
        structlog.get_logger("lectern.http").info("request")
    lines = capsys.readouterr().err.splitlines()
    assert sum("Invalid" in line for line in lines) == MAX_LINES
    assert sum("request" in json.loads(line)["event"] for line in lines) >= 500


@pytest.mark.parametrize(
    ("ours", "name", "shown"),
    [
        ("DEBUG", "sqlalchemy.engine", False),
        ("DEBUG", "lectern.http", True),
        ("DEBUG", "uvicorn.error", True),
        ("ERROR", "uvicorn.error", False),
    ],
)
def test_other_libraries_are_quiet_whatever_our_level(
    capsys: pytest.CaptureFixture[str], ours: str, name: str, shown: bool
) -> None:
    configure(ours, as_json=True)
    logging.getLogger(name).info("INSERT INTO documents")
    assert bool(capsys.readouterr().err) == shown
