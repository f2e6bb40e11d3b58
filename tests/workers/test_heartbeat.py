"""The heartbeat renews a lease beside the work, and reports when the job is lost."""

import time

import pytest

from common.errors import DatabaseUnavailable, LeaseLost, ReadingTimeout
from tests.workers.conftest import wait_for
from workers.heartbeat import Heartbeat


def test_a_renewal_that_fails_is_tried_again() -> None:
    beats: list[int] = []

    def beat() -> None:
        beats.append(len(beats))
        if len(beats) < 3:
            raise DatabaseUnavailable("away")

    with Heartbeat(beat, 0.005, lambda: None) as heartbeat:
        wait_for(lambda: len(beats) > 5)
        heartbeat.check()


def test_a_lost_job_ends_the_heartbeat_and_is_reported() -> None:
    beats: list[int] = []

    def beat() -> None:
        beats.append(1)
        raise LeaseLost("taken over")

    with Heartbeat(beat, 0.005, lambda: None) as heartbeat:
        wait_for(lambda: beats)
        time.sleep(0.05)
        with pytest.raises(LeaseLost):
            heartbeat.check()
    assert len(beats) == 1


def test_what_the_look_at_the_job_raises_stops_the_work() -> None:
    def look() -> None:
        raise ReadingTimeout("It took too long.")

    with Heartbeat(lambda: None, 0.005, look) as heartbeat:
        time.sleep(0.05)
        with pytest.raises(ReadingTimeout):
            heartbeat.check()


def test_the_job_is_looked_at_more_often_than_its_lease_is_renewed() -> None:
    looks: list[int] = []

    def renew() -> None:
        raise AssertionError("It is not time yet.")

    with Heartbeat(renew, 60.0, lambda: looks.append(1)) as heartbeat:
        wait_for(lambda: len(looks) > 2)
        heartbeat.check()
