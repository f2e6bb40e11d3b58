"""Named checks, each of which tells what is wrong; made apart from all other work."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio
import structlog
from anyio import CapacityLimiter, to_thread

from common.error_trace import error_trace
from common.errors import LecternError

MAX_AGE_S = 1.0
TIMEOUT_S = 6.0  # a little more than the slowest check takes itself
HANGS = "The check has not ended within {timeout_s:g} seconds."
BROKEN = "The check itself has failed; the log says where."


@dataclass(frozen=True)
class Check:
    """One thing that has to be true for questions to be answered.

    Attributes:
        name: under which the result is shown.
        find_problem: returns one sentence about what is wrong, or None; a LecternError that it
            raises is the problem. It is called on a thread, unless it is quick.
        is_quick: whether it returns at once, without waiting for anything. Other checks are made at
            most once a second, however often they are asked for.
    """

    name: str
    find_problem: Callable[[], str | None]
    is_quick: bool = False


@dataclass
class _Outcome:
    """The last outcome of a check: its problem, and when it was made, in monotonic seconds.

    Attributes:
        is_running: whether a thread still makes the check, although nobody may wait for it.
    """

    problem: str | None = None
    made_s: float = float("-inf")
    is_running: bool = False
    making: anyio.Lock = field(default_factory=anyio.Lock)


class Checks:
    """Makes checks on threads of their own, so that nothing else keeps them from an answer.

    Args:
        timeout_s: seconds after which a check that has not ended counts as failed.
    """

    def __init__(self, checks: Sequence[Check], timeout_s: float = TIMEOUT_S) -> None:
        self._checks = checks
        self._timeout_s = timeout_s
        self._outcomes = {check.name: _Outcome() for check in checks}
        self._threads = CapacityLimiter(len(checks))

    async def problems(self) -> Mapping[str, str | None]:
        """Return the problem of each check, by name; None where there is none."""
        async with anyio.create_task_group() as group:
            for check in self._checks:
                group.start_soon(self._update, check)
        return {check.name: self._outcomes[check.name].problem for check in self._checks}

    async def _update(self, check: Check) -> None:
        outcome = self._outcomes[check.name]
        if check.is_quick:
            outcome.problem = _find_problem(check)
            return
        async with outcome.making:  # callers who come together share one outcome
            if time.monotonic() - outcome.made_s < MAX_AGE_S or outcome.is_running:
                return
            outcome.problem = HANGS.format(timeout_s=self._timeout_s)
            outcome.is_running = True

            def find_problem() -> str | None:
                try:
                    return _find_problem(check)
                finally:
                    outcome.is_running = False

            with anyio.move_on_after(self._timeout_s):
                outcome.problem = await to_thread.run_sync(
                    find_problem, limiter=self._threads, abandon_on_cancel=True
                )
            outcome.made_s = time.monotonic()


def _find_problem(check: Check) -> str | None:
    try:
        return check.find_problem()
    except LecternError as error:
        return error.message
    except Exception as error:
        log = structlog.get_logger("lectern.http")
        log.error("a check has failed", check=check.name, exception=error_trace(error))
        return BROKEN
