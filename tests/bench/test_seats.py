"""Jobs that need a GPU each: as many at once as there are GPUs, and none shares one."""

from threading import Barrier, Lock

import pytest

from bench.seats import take_seats


@pytest.mark.parametrize("count", [1, 3])
def test_jobs_run_at_once_on_gpus_of_their_own(monkeypatch, count):
    monkeypatch.setattr("torch.cuda.device_count", lambda: count)
    together, lock, taken, done = Barrier(count, timeout=20), Lock(), set(), []

    def work(job, seat):
        gpu = seat.environment["CUDA_VISIBLE_DEVICES"]
        with lock:
            assert gpu not in taken
            taken.add(gpu)
        together.wait()  # breaks if fewer than `count` run at once
        with lock:
            taken.remove(gpu)
            done.append((job, gpu))

    jobs = [f"job {number}" for number in range(2 * count)]
    take_seats(jobs, work)
    assert sorted(job for job, _ in done) == jobs
    assert {gpu for _, gpu in done} == {str(place) for place in range(count)}


def test_without_a_gpu_they_take_turns_and_nothing_is_hidden(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    seats = []
    take_seats(["one", "two"], lambda job, seat: seats.append((job, seat)))
    assert [job for job, _ in seats] == ["one", "two"]
    assert not any("CUDA_VISIBLE_DEVICES" in seat.environment for _, seat in seats)
    assert seats[0][1].workers >= 1


def test_what_a_job_raises_is_raised():
    def fail(job, seat):
        raise RuntimeError(f"{job} on {seat.workers} workers")

    with pytest.raises(RuntimeError, match="the job"):
        take_seats(["the job"], fail)
