"""Login attempts: those of an address that has guessed wrong are slowed down, not locked out.

The password is random and cannot be guessed at any rate; what has to be limited is the work that
checking one takes. Each address is limited for itself, so that nobody keeps others out.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from anyio import CapacityLimiter, to_thread

from app.admin.password import check_password
from app.http.connections import address_group
from common.errors import Busy, TooManyRequests

WINDOW_S = 60.0
QUICK_ATTEMPTS = 5  # in a window, from one address
SLOW_S = 1.0  # before each further one
MAX_ADDRESSES = 10_000
MAX_CHECKS = 16  # that run or wait; each takes tens of milliseconds and tens of megabytes
TOO_MANY = "Too many attempts at once from your address; try again in a moment."
CROWDED = "Too many passwords are being checked; try again in a moment."


class Logins:
    """Checks passwords, one at a time; it is used on the event loop only.

    Args:
        data_dir: the data folder, in which the password's hash is stored.
    """

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._attempts: OrderedDict[str, deque[float]] = OrderedDict()  # monotonic seconds
        self._slowed: set[str] = set()
        self._thread = CapacityLimiter(1)
        self._num_checks = 0

    async def check(self, host: str, password: str) -> bool:
        """Return whether a password is right.

        Args:
            host: the address that the attempt came from.
        Raises: TooManyRequests if an address that is slowed down makes several attempts at once,
            Busy if too many attempts wait.
        """
        address = address_group(host)
        async with self._in_turn(address):
            is_right = await self._check(password)
        if is_right:
            self._attempts.pop(address, None)
        return is_right

    async def _check(self, password: str) -> bool:
        if self._num_checks >= MAX_CHECKS:
            raise Busy(CROWDED, retry_after_s=SLOW_S)
        self._num_checks += 1
        try:
            return await to_thread.run_sync(
                check_password, self._data_dir, password, limiter=self._thread
            )
        finally:
            self._num_checks -= 1

    @asynccontextmanager
    async def _in_turn(self, address: str) -> AsyncIterator[None]:
        if self._num_attempts(address) < QUICK_ATTEMPTS:
            self._note_attempt(address)
            yield
            return
        if address in self._slowed:
            raise TooManyRequests(TOO_MANY, retry_after_s=SLOW_S)
        self._slowed.add(address)
        try:
            await asyncio.sleep(SLOW_S)
            self._note_attempt(address)
            yield
        finally:
            self._slowed.discard(address)

    def _num_attempts(self, address: str) -> int:
        attempts = self._attempts.get(address, deque[float]())
        while attempts and time.monotonic() - attempts[0] > WINDOW_S:
            attempts.popleft()
        return len(attempts)

    def _note_attempt(self, address: str) -> None:
        attempts = self._attempts.setdefault(address, deque(maxlen=QUICK_ATTEMPTS))
        attempts.append(time.monotonic())
        self._attempts.move_to_end(address)
        while len(self._attempts) > MAX_ADDRESSES:
            self._attempts.popitem(last=False)
