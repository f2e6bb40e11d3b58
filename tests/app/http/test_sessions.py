"""Sessions end when left alone."""

import pytest

from app.http import sessions
from app.http.sessions import Sessions


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands until it is moved."""
    now = [1000.0]
    monkeypatch.setattr(sessions.time, "monotonic", lambda: now[0])
    return now


def test_every_login_gets_a_token_of_its_own() -> None:
    opened = Sessions()
    first, second = opened.open(), opened.open()
    assert first != second
    found = [opened.find(token, touch=True) for token in (first, second)]
    assert None not in found
    assert found[0].csrf != found[1].csrf


@pytest.mark.parametrize("token", ["", "guess", "\udcff", "x" * 100_000])
def test_an_unknown_token_opens_nothing(token: str) -> None:
    opened = Sessions()
    opened.open()
    assert opened.find(token, touch=True) is None


def test_a_closed_session_is_gone() -> None:
    opened = Sessions()
    token = opened.open()
    opened.close(token)
    opened.close(token)
    assert opened.find(token, touch=True) is None


def test_a_session_left_alone_ends(clock: list[float]) -> None:
    opened = Sessions()
    token = opened.open()
    clock[0] += sessions.IDLE_S - 1
    assert opened.find(token, touch=True)
    clock[0] += sessions.IDLE_S - 1
    assert opened.find(token, touch=False)  # a page that refreshes itself is nobody's click
    clock[0] += 2
    assert opened.find(token, touch=True) is None


def test_even_a_busy_session_ends(clock: list[float]) -> None:
    opened = Sessions()
    token, opened_s = opened.open(), clock[0]
    click_s = sessions.IDLE_S / 2
    while clock[0] + click_s <= opened_s + sessions.MAX_AGE_S:
        clock[0] += click_s
        assert opened.find(token, touch=True)
    clock[0] = opened_s + sessions.MAX_AGE_S + 1
    assert clock[0] < opened_s + sessions.MAX_AGE_S + sessions.IDLE_S  # so it is not left alone
    assert opened.find(token, touch=True) is None


def test_the_number_of_sessions_is_bounded() -> None:
    opened = Sessions()
    first = opened.open()
    last = [opened.open() for _ in range(sessions.MAX_SESSIONS)][-1]
    assert opened.find(first, touch=True) is None
    assert opened.find(last, touch=True)
