"""Writes that nobody waits for are done in order, survive an outage, and are counted when lost."""

import threading
import time

from structlog.testing import capture_logs

from app.services.background_writes import BackgroundWrites
from common.errors import DatabaseUnavailable, Permanent
from tests.app.live import until


def test_writes_are_done_in_order_and_before_the_end() -> None:
    writes, done = BackgroundWrites(), []
    writes.start()
    for number in range(50):
        writes.add(lambda number=number: done.append(number))
    writes.close(10)
    assert done == list(range(50))


def test_a_write_lets_the_next_question_go_first_unless_the_server_stops() -> None:
    writes, done = BackgroundWrites(delay_s=60), []
    writes.start()
    writes.add(lambda: done.append("first"))
    writes.add(lambda: done.append("second"))
    time.sleep(0.1)
    assert done == []
    writes.close(10)
    assert done == ["first", "second"]


def test_writes_outlast_an_outage_which_is_logged_once() -> None:
    writes, done, tries = BackgroundWrites(retry_s=0.01), [], []

    def write() -> None:
        tries.append(0)
        if len(tries) < 4:
            raise DatabaseUnavailable("Away.")
        done.append(True)

    with capture_logs() as logs:
        writes.start()
        writes.add(write)
        until(lambda: bool(done))
        writes.close(10)
    assert [line["event"] for line in logs] == ["figures of questions wait for the database"]


def test_one_write_that_cannot_be_done_stops_no_other() -> None:
    writes, done = BackgroundWrites(), []

    def refused() -> None:
        raise Permanent("No.")

    def broken() -> None:
        raise ValueError("a text that must not be logged")

    with capture_logs() as logs:
        writes.start()
        for write in (refused, broken, lambda: done.append(True)):
            writes.add(write)
        writes.close(10)
    assert done == [True]
    assert len(logs) == 2
    assert "must not be logged" not in repr(logs)


def test_nobody_waits_for_a_database_that_hangs_and_losses_are_counted() -> None:
    writes, hangs = BackgroundWrites(max_waiting=2), threading.Event()
    with capture_logs() as logs:
        writes.start()
        started_s = time.monotonic()
        running = threading.Event()

        def write() -> None:
            running.set()
            hangs.wait(30)

        writes.add(write)
        assert running.wait(10)
        for _ in range(5):
            writes.add(lambda: None)  # two of them wait
        writes.close(0.1)
        assert time.monotonic() - started_s < 20
        hangs.set()
    lost = [line["num_writes"] for line in logs if "num_writes" in line]
    assert sum(lost) >= 3


def test_a_stop_during_an_outage_does_not_hang() -> None:
    writes = BackgroundWrites(retry_s=60)

    def away() -> None:
        raise DatabaseUnavailable("Away.")

    with capture_logs() as logs:
        writes.start()
        writes.add(away)
        writes.add(away)
        writes.close(20)
    assert sum(line.get("num_writes", 0) for line in logs) == 2
