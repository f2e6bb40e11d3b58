"""Each check has its own answer, however the others are."""

import asyncio
import threading

import pytest
from structlog.testing import capture_logs

from app.services import readiness
from app.services.readiness import BROKEN, Check, Readiness
from common.errors import DatabaseUnavailable

pytestmark = pytest.mark.anyio


def away() -> None:
    raise DatabaseUnavailable("The database does not answer.")


async def test_each_check_tells_its_own_fault() -> None:
    checks = [
        Check("fine", lambda: None),
        Check("worker", lambda: "There is no worker.", is_quick=True),
        Check("database", away),
    ]
    assert await Readiness(checks).faults() == {
        "fine": None,
        "worker": "There is no worker.",
        "database": "The database does not answer.",
    }


async def test_a_check_that_hangs_is_a_fault_and_holds_nobody_up_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(readiness, "MAX_AGE_S", 0.0)
    hangs, num_begun = threading.Event(), []

    def hang() -> None:
        num_begun.append(1)
        hangs.wait(30)

    looked = Readiness([Check("slow", hang), Check("fine", lambda: None)], timeout_s=0.1)
    for _ in range(3):
        faults = await looked.faults()
        assert faults["fine"] is None
        assert "0.1 seconds" in str(faults["slow"])
    assert len(num_begun) == 1
    hangs.set()
    async with asyncio.timeout(10):
        while (await looked.faults())["slow"] is not None:  # noqa: ASYNC110 a thread sets it
            await asyncio.sleep(0.01)


async def test_many_callers_share_one_check() -> None:
    num_begun = []
    looked = Readiness([Check("database", lambda: num_begun.append(1))])
    for found in await asyncio.gather(*(looked.faults() for _ in range(50))):
        assert found == {"database": None}
    assert len(num_begun) == 1


async def test_a_check_that_is_broken_is_a_fault_without_its_words() -> None:
    def broken() -> None:
        raise ValueError("canary")

    with capture_logs() as logs:
        assert await Readiness([Check("odd", broken)]).faults() == {"odd": BROKEN}
    assert "ValueError" in logs[0]["exception"]
    assert "canary" not in repr(logs)
