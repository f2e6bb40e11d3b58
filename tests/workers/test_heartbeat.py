"""The heartbeat renews a lease beside the work, and reports when the job is lost."""

import time

import pytest

from common.errors import DatabaseUnavailable, LeaseLost
from tests.workers.conftest import wait_for
from workers.heartbeat import Heartbeat


def test_a_renewal_that_fails_is_tried_again() -> None:
    beats: list[int] = []

    def beat() -> None:
        beats.append(len(beats))
        if len(beats) < 3:
            raise DatabaseUnavailable("away")

    with Heartbeat(beat, every_s=0.005) as heartbeat:
        wait_for(lambda: len(beats) > 5)
        heartbeat.check()


def test_a_lost_job_ends_the_heartbeat_and_is_reported() -> None:
    beats: list[int] = []

    def beat() -> None:
        beats.append(1)
        raise LeaseLost("taken over")

    with Heartbeat(beat, every_s=0.005) as heartbeat:
        wait_for(lambda: beats)
        time.sleep(0.05)
        with pytest.raises(LeaseLost):
            heartbeat.check()
    assert len(beats) == 1
