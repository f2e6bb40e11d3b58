"""Log lines."""

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from common.logging import configure


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Leave the process's logging as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


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
