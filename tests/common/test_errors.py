"""The error tree."""

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from common.errors import (
    CorruptArtifact,
    InvalidInput,
    LecternError,
    NotReady,
    Permanent,
    StorageFull,
    Transient,
)

FAMILIES = (InvalidInput, NotReady, Transient, Permanent, CorruptArtifact)


def below(kind: type[LecternError]) -> Iterator[type[LecternError]]:
    for child in kind.__subclasses__():
        if child.__module__ == "common.errors":
            yield child
            yield from below(child)


ERRORS = sorted(set(below(LecternError)), key=lambda kind: kind.__name__)


def test_codes_are_unique() -> None:
    assert [
        code for code, count in Counter(kind.code for kind in ERRORS).items() if count > 1
    ] == []
    assert len(ERRORS) > 25


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_has_a_code_of_its_own_a_reason_and_one_family(kind: type[LecternError]) -> None:
    assert "code" in vars(kind)
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", kind.code)
    assert kind.__doc__
    assert len([family for family in FAMILIES if issubclass(kind, family)]) == 1


def test_an_error_carries_what_its_caller_needs() -> None:
    error = StorageFull("No space is left.", param="file", retry_after_s=5.0)
    assert (str(error), error.message) == ("No space is left.", "No space is left.")
    assert (error.param, error.retry_after_s) == ("file", 5.0)
    assert (LecternError("Oops.").param, LecternError("Oops.").retry_after_s) == (None, None)
