"""The table from codes to statuses is whole and says the same everywhere."""

from collections.abc import Iterator

import pytest

from app.http.errors import STATUS, explain, explain_status
from common import errors
from common.errors import InvalidInput, LecternError, NotReady, Transient

INTERNAL = {
    "caller_gone",
    "permanent",
    "corrupt_artifact",
    "unsupported_model",
    "engine_fault",
    "head_plan_rejected",
    "cancelled",
}
NEVER_SENT = {  # errors that are handled before a caller could see them
    "original_missing",
    "lease_lost",
    "shape_error",
    "turn_ended",
    "unknown_plugin",
}


def family(kind: type[LecternError]) -> Iterator[type[LecternError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from family(child)


# The command line has errors of its own, which no caller meets.
SERVED = {kind for kind in family(LecternError) if not kind.__module__.startswith("cli.")}
ALL = sorted(SERVED, key=lambda kind: kind.code)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.code)
def test_every_error_has_a_status_of_its_family(kind: type[LecternError]) -> None:
    failure = explain(kind("What happened."))
    if issubclass(kind, InvalidInput | NotReady):
        assert 400 <= failure.status < 500
    elif issubclass(kind, Transient):
        assert failure.status in (429, 503, 504, 507)
    elif kind is errors.NonFiniteNumbers:  # no fault of the server: this text, in this dtype
        assert failure.status == 422
    else:
        assert failure.status == 500
    assert failure.code == ("internal_error" if failure.status == 500 else kind.code)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.code)
def test_every_code_a_caller_can_meet_stands_in_the_table(kind: type[LecternError]) -> None:
    assert kind.code in STATUS or kind.code in INTERNAL | NEVER_SENT


def test_an_internal_message_stays_inside() -> None:
    for error in (
        ValueError("secret"),
        errors.Permanent("secret"),
        errors.CorruptArtifact("secret"),
    ):
        assert "secret" not in explain(error).body().model_dump_json()


def test_a_message_meant_for_the_caller_reaches_it() -> None:
    body = explain(InvalidInput("Say it otherwise.", param="budget")).body().model_dump()
    assert body == {
        "error": {
            "message": "Say it otherwise.",
            "type": "invalid_request_error",
            "param": "budget",
            "code": "invalid_input",
        }
    }


def test_waiting_is_advised_in_whole_seconds() -> None:
    assert explain(errors.TooManyQuestions("Later.", retry_after_s=0.2)).headers() == {
        "retry-after": "1"
    }
    assert "retry-after" in explain(errors.DocumentNotReady("Later.")).headers()
    assert explain(errors.EmptyQuestion("Ask.")).headers() == {}
    tomorrow = explain(errors.RateLimited("Later.", retry_after_s=7200.0)).headers()
    assert tomorrow == {"retry-after": "7200", "x-should-retry": "false"}


def test_bare_statuses_get_a_body_too() -> None:
    assert explain_status(404).code == "not_found"
    assert explain_status(418).status == 500
