"""Jobs that need a GPU each: as many at once as there are GPUs, and none shares one."""

from threading import Barrier, Lock

import pytest

from training.gpu_pool import run_on_gpus


@pytest.mark.parametrize("count", [1, 3])
def test_jobs_run_at_once_on_gpus_of_their_own(monkeypatch, count):
    monkeypatch.setattr("torch.cuda.device_count", lambda: count)
    together, lock, taken, done = Barrier(count, timeout=20), Lock(), set(), []

    def work(job, slot):
        gpu = slot.environment["CUDA_VISIBLE_DEVICES"]
        with lock:
            assert gpu not in taken
            taken.add(gpu)
        together.wait()  # breaks if fewer than `count` run at once
        with lock:
            taken.remove(gpu)
            done.append((job, gpu))

    jobs = [f"job {number}" for number in range(2 * count)]
    run_on_gpus(jobs, work)
    assert sorted(job for job, _ in done) == jobs
    assert {gpu for _, gpu in done} == {str(place) for place in range(count)}


def test_without_a_gpu_they_take_turns_and_nothing_is_hidden(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    slots = []
    run_on_gpus(["one", "two"], lambda job, slot: slots.append((job, slot)))
    assert [job for job, _ in slots] == ["one", "two"]
    assert not any("CUDA_VISIBLE_DEVICES" in slot.environment for _, slot in slots)
    assert slots[0][1].workers >= 1


def test_what_a_job_raises_is_raised():
    def fail(job, slot):
        raise RuntimeError(f"{job} on {slot.workers} workers")

    with pytest.raises(RuntimeError, match="the job"):
        run_on_gpus(["the job"], fail)
