"""Workers are alive while they hold their lock, and jumps of the clock are noticed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from storage.jobs import liveness
from storage.jobs.liveness import JUMP_S, SETTLE_S, ClockJumps, WorkerLiveness


def test_a_worker_that_holds_its_lock_is_alive(tmp_path: Path) -> None:
    workers = WorkerLiveness(tmp_path)
    owner = workers.new_owner()
    with workers.hold(owner):
        assert workers.dead_owners() == ()
    assert workers.dead_owners() == (), "it has removed its file"
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_nobody_has_locked_belongs_to_a_dead_worker(tmp_path: Path) -> None:
    workers = WorkerLiveness(tmp_path)
    alive, dead = workers.new_owner(), workers.new_owner()
    assert alive != dead
    (tmp_path / f"{dead}.alive").touch()
    with workers.hold(alive):
        assert workers.dead_owners() == (dead,)
        workers.forget((dead,))
        assert workers.dead_owners() == ()
        assert (tmp_path / f"{alive}.alive").exists()


def test_workers_of_other_hosts_are_not_judged(tmp_path: Path) -> None:
    elsewhere = WorkerLiveness(tmp_path, "else/where").new_owner()
    assert "/" not in elsewhere
    (tmp_path / f"{elsewhere}.alive").touch()
    assert WorkerLiveness(tmp_path, "here").dead_owners() == ()
    assert WorkerLiveness(tmp_path, "else/where").dead_owners() == (elsewhere,)


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0, JUMP_S + 1])
def test_after_a_jump_the_clock_needs_time_to_settle(
    jump_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_s, shared = 100.0, datetime(2026, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(liveness, "monotonic", lambda: own_s)
    jumps = ClockJumps()
    assert jumps.has_settled(shared), "the first look has nothing to compare with"
    own_s += 10
    assert jumps.has_settled(shared + timedelta(seconds=10))
    ahead = shared + timedelta(seconds=jump_s)
    assert not jumps.has_settled(ahead + timedelta(seconds=10))
    own_s += SETTLE_S - 1
    assert not jumps.has_settled(ahead + timedelta(seconds=10 + SETTLE_S - 1))
    own_s += 1
    assert jumps.has_settled(ahead + timedelta(seconds=10 + SETTLE_S))
