"""Slots go to keys in turn, and one key never has them all."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from app.services.fair_slots import FairSlots
from common.owner import Owner

pytestmark = pytest.mark.anyio
GREEDY, MODEST, THIRD = (Owner("tenant", name) for name in ("greedy", "modest", "third"))


class Tasks:
    """Tasks that hold a slot until they are told to end."""

    def __init__(self, slots: FairSlots) -> None:
        self._slots = slots
        self.running: list[Owner] = []
        self._ends: dict[Owner, list[asyncio.Event]] = {}
        self._group: list[asyncio.Task[None]] = []

    async def start(self, owner: Owner) -> asyncio.Task[None]:
        async def hold() -> None:
            async with self._slots.slot(owner):
                end = asyncio.Event()
                self._ends.setdefault(owner, []).append(end)
                self.running.append(owner)
                await end.wait()
                self.running.remove(owner)

        self._group.append(asyncio.create_task(hold()))
        await settle()
        return self._group[-1]

    async def end(self, owner: Owner) -> None:
        self._ends[owner].pop(0).set()
        await settle()

    async def cancel(self) -> None:
        for task in self._group:
            task.cancel()
        await asyncio.gather(*self._group, return_exceptions=True)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_key_with_many_tasks_leaves_a_slot_to_others() -> None:
    tasks = Tasks(FairSlots(3))
    for _ in range(10):
        await tasks.start(GREEDY)
    assert tasks.running == [GREEDY] * 2
    await tasks.start(MODEST)
    assert tasks.running == [GREEDY, GREEDY, MODEST]
    await tasks.cancel()


async def test_keys_that_wait_take_turns() -> None:
    tasks = Tasks(FairSlots(2))
    for _ in range(4):
        await tasks.start(GREEDY)
    for _ in range(2):
        await tasks.start(MODEST)
        await tasks.start(THIRD)
    assert tasks.running == [GREEDY, MODEST]
    await tasks.end(GREEDY)
    assert tasks.running == [MODEST, THIRD], "the key that has not had a turn yet"
    await tasks.end(MODEST)
    assert tasks.running == [THIRD, GREEDY]
    await tasks.end(THIRD)
    assert tasks.running == [GREEDY, MODEST]
    await tasks.cancel()


async def test_tenants_take_turns_whatever_keys_they_have() -> None:
    tasks = Tasks(FairSlots(1))
    many = [Owner("many", number) for number in range(4)]
    for owner in (*many, MODEST):
        await tasks.start(owner)
    await tasks.end(many[0])
    assert tasks.running == [MODEST]
    await tasks.cancel()


async def test_a_single_slot_serves_everybody_in_the_end() -> None:
    tasks = Tasks(FairSlots(1))
    for owner in (GREEDY, GREEDY, MODEST):
        await tasks.start(owner)
    served = []
    while tasks.running:
        served += tasks.running
        await tasks.end(tasks.running[0])
    assert sorted(served) == sorted([GREEDY, GREEDY, MODEST])
    assert served[1] == MODEST


async def test_whoever_stops_waiting_takes_no_slot() -> None:
    slots = FairSlots(1)
    tasks = Tasks(slots)
    await tasks.start(GREEDY)
    waiting = await tasks.start(MODEST)
    last = await tasks.start(THIRD)
    waiting.cancel()
    await tasks.end(GREEDY)
    assert tasks.running == [THIRD]
    assert not last.done()
    await tasks.cancel()
    async with AsyncExitStack() as stack, asyncio.timeout(5):
        await stack.enter_async_context(slots.slot(MODEST))
    assert not slots._waiting
    assert not slots._held


@pytest.mark.parametrize("leaves_first", [True, False])
async def test_a_turn_that_comes_at_the_moment_of_leaving_is_passed_on(leaves_first: bool) -> None:
    slots = FairSlots(1)
    tasks = Tasks(slots)
    first = await tasks.start(GREEDY)
    waiting = await tasks.start(MODEST)
    if leaves_first:
        waiting.cancel()
        first.cancel()
    else:
        first.cancel()
        await asyncio.sleep(0)
        waiting.cancel()
    await settle()
    async with asyncio.timeout(5), slots.slot(THIRD):
        pass
