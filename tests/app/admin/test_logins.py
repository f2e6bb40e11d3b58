"""Attempts of one address do not concern those of another."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.admin import logins
from app.admin.logins import MAX_ADDRESSES, QUICK_ATTEMPTS, WINDOW_S, Logins
from common.errors import Busy, TooManyRequests

pytestmark = pytest.mark.anyio
RIGHT = "right"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands until it is moved; the right password is `RIGHT`."""
    now = [1000.0]
    monkeypatch.setattr(logins, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(logins, "check_password", lambda _, password: password == RIGHT)
    monkeypatch.setattr(logins, "SLOW_S", 0.05)
    return now


async def guess(made: Logins, host: str, password: str = "wrong") -> float:
    """Make an attempt; return the seconds that it took."""
    started_s = asyncio.get_running_loop().time()
    await made.check(host, password)
    return asyncio.get_running_loop().time() - started_s


async def test_an_address_is_slowed_down_until_its_guesses_are_old(
    clock: list[float], tmp_path: Path
) -> None:
    made = Logins(tmp_path)
    for _ in range(QUICK_ATTEMPTS):
        await guess(made, "203.0.113.1")
    assert await guess(made, "203.0.113.1") >= 0.05
    slowed = asyncio.create_task(guess(made, "203.0.113.1"))
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequests):
        await guess(made, "203.0.113.1")
    assert await made.check("203.0.113.2", RIGHT), "nobody else is concerned"
    await slowed
    clock[0] += WINDOW_S + 1
    await asyncio.gather(*(guess(made, "203.0.113.1") for _ in range(QUICK_ATTEMPTS)))


async def test_the_right_password_passes_however_many_wrong_ones_came(
    clock: list[float], tmp_path: Path
) -> None:
    made = Logins(tmp_path)
    for number in range(200):
        await guess(made, f"203.0.113.{number}")
    for _ in range(10):
        assert not await made.check("198.51.100.1", "wrong")
    assert await made.check("198.51.100.1", RIGHT)
    assert "198.51.100.1" not in made._attempts, "and starts afresh"


async def test_addresses_of_one_network_count_as_one(clock: list[float], tmp_path: Path) -> None:
    made = Logins(tmp_path)
    for number in range(QUICK_ATTEMPTS):
        await guess(made, f"2001:db8::{number}")
    assert len(made._attempts) == 1


async def test_passwords_are_checked_one_at_a_time_and_only_some_wait(
    clock: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, most = [], []

    def check(_: Path, __: str) -> bool:
        running.append(1)
        most.append(len(running))
        time.sleep(0.01)
        running.pop()
        return False

    monkeypatch.setattr(logins, "check_password", check)
    made = Logins(tmp_path)
    hosts = [f"203.0.113.{number}" for number in range(100)]
    outcomes = await asyncio.gather(*(guess(made, host) for host in hosts), return_exceptions=True)
    assert max(most) == 1
    assert any(isinstance(outcome, Busy) for outcome in outcomes)
    assert sum(not isinstance(outcome, BaseException) for outcome in outcomes) == logins.MAX_CHECKS


async def test_the_number_of_addresses_is_bounded(clock: list[float], tmp_path: Path) -> None:
    made = Logins(tmp_path)
    for number in range(MAX_ADDRESSES + 100):
        made._note_attempt(f"host-{number}")
    assert len(made._attempts) == MAX_ADDRESSES
