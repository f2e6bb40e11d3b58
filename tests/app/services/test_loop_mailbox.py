"""Items of other threads come into the event loop, in their order and with few wake-ups."""

import asyncio
import threading

from app.services.loop_mailbox import LoopMailbox


def test_items_of_a_thread_come_in_their_order_and_wake_the_loop_once() -> None:
    async def run() -> list[int]:
        loop = asyncio.get_running_loop()
        wakes: list[None] = []
        wake = loop.call_soon_threadsafe

        def counted(*given: object) -> object:
            wakes.append(None)
            return wake(*given)  # type: ignore[arg-type]

        loop.call_soon_threadsafe = counted  # type: ignore[method-assign, assignment]
        mailbox, items = LoopMailbox(loop), asyncio.Queue[int]()
        thread = threading.Thread(target=lambda: [mailbox.put(items, n) for n in range(50)])
        thread.start()
        thread.join()  # the loop could not look meanwhile
        assert len(wakes) == 1
        first = [await items.get() for _ in range(50)]
        mailbox.put(items, 50)
        assert len(wakes) == 2
        return [*first, await items.get()]

    assert asyncio.run(run()) == list(range(51))


def test_nobody_waits_for_items_of_a_closed_loop() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    LoopMailbox(loop).put(asyncio.Queue(), 1)
