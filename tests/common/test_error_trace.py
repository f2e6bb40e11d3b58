"""Where an error comes from is told, what it says and what it worked on is not."""

import pytest

from common.error_trace import error_trace, error_types
from common.errors import DatabaseUnavailable

CANARY = "canary-heron"


def failing() -> Exception:
    """An error with causes, notes and local variables, all of which quote a text."""

    def inner(text: str) -> None:
        held = text * 2
        raise KeyError(held)

    def outer(text: str) -> None:
        try:
            inner(text)
        except KeyError as error:
            error.add_note(text)
            raise ValueError(f"cannot read {text}") from error

    try:
        outer(CANARY)
    except ValueError as error:
        return error
    raise AssertionError


def test_types_and_places_of_all_causes_are_told() -> None:
    error = failing()
    trace = error_trace(error)
    assert CANARY not in trace
    assert trace.splitlines()[0] == "ValueError"
    assert "from KeyError" in trace
    for name in ("failing", "outer", "inner"):
        assert f" in {name}" in trace
    assert f"{__file__}:{error.__traceback__.tb_lineno} in failing" in trace
    assert error_types(error) == "ValueError from KeyError"


def test_our_own_errors_tell_their_code() -> None:
    name = "common.errors.DatabaseUnavailable (database_unavailable)"
    assert error_trace(DatabaseUnavailable(CANARY)) == name


def test_the_parts_of_a_group_are_told() -> None:
    group = ExceptionGroup(CANARY, [failing(), ExceptionGroup(CANARY, [OSError(CANARY)])])
    trace = error_trace(group)
    assert CANARY not in trace
    assert "  | ValueError" in trace
    assert "  |   | OSError" in trace


@pytest.mark.parametrize("num_causes", [1, 50])
def test_a_long_chain_ends(num_causes: int) -> None:
    first = last = ValueError(CANARY)
    for _ in range(num_causes):
        last.__cause__ = ValueError(CANARY)
        last = last.__cause__
    last.__cause__ = first
    assert len(error_trace(first).splitlines()) <= 50


def test_a_cause_that_was_suppressed_is_left_out() -> None:
    error = ValueError(CANARY)
    error.__context__, error.__suppress_context__ = KeyError(CANARY), True
    assert error_types(error) == "ValueError"
