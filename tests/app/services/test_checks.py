"""Each check has its own answer, however the others are."""

import asyncio
import threading

import pytest
from structlog.testing import capture_logs

from app.services import checks
from app.services.checks import BROKEN, Check, Checks
from common.errors import DatabaseUnavailable

pytestmark = pytest.mark.anyio


def away() -> None:
    raise DatabaseUnavailable("The database does not answer.")


async def test_each_check_tells_its_own_problem() -> None:
    made = [
        Check("fine", lambda: None),
        Check("worker", lambda: "There is no worker.", is_quick=True),
        Check("database", away),
    ]
    assert await Checks(made).problems() == {
        "fine": None,
        "worker": "There is no worker.",
        "database": "The database does not answer.",
    }


async def test_a_check_that_hangs_is_a_problem_and_holds_nobody_up_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "MAX_AGE_S", 0.0)
    hangs, num_begun = threading.Event(), []

    def hang() -> None:
        num_begun.append(1)
        hangs.wait(30)

    looked = Checks([Check("slow", hang), Check("fine", lambda: None)], timeout_s=0.1)
    for _ in range(3):
        problems = await looked.problems()
        assert problems["fine"] is None
        assert "0.1 seconds" in str(problems["slow"])
    assert len(num_begun) == 1
    hangs.set()
    async with asyncio.timeout(10):
        while (await looked.problems())["slow"] is not None:  # noqa: ASYNC110 a thread sets it
            await asyncio.sleep(0.01)


async def test_many_callers_share_one_check() -> None:
    num_begun = []
    looked = Checks([Check("database", lambda: num_begun.append(1))])
    for found in await asyncio.gather(*(looked.problems() for _ in range(50))):
        assert found == {"database": None}
    assert len(num_begun) == 1


async def test_a_check_that_is_broken_is_a_problem_without_its_words() -> None:
    def broken() -> None:
        raise ValueError("canary")

    with capture_logs() as logs:
        assert await Checks([Check("odd", broken)]).problems() == {"odd": BROKEN}
    assert "ValueError" in logs[0]["exception"]
    assert "canary" not in repr(logs)
