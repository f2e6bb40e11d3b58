"""What every result says about its origin."""

import pytest
import torch

from training import record
from training.record import circumstances, commit, drawn, gpu_versions, percentiles


def test_a_commit_that_is_named_goes_before_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_COMMIT", "0123456789ab")
    assert commit() == "0123456789ab"


def test_percentiles_of_one_sample_are_that_sample() -> None:
    assert percentiles([2.5]) == {"p20": 2.5, "p50": 2.5, "p80": 2.5, "n": 1}
    assert percentiles([1.0, 2.0, 3.0])["p50"] == 2.0


def test_a_gpus_result_names_what_compiled_its_kernels_and_whose_it_is_held_against(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = {"triton": "3.6.0", "cuda": "13.0", "cudnn": "91200"}
    monkeypatch.setattr(record, "gpu_versions", lambda: own)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "a GPU")
    on_gpu, on_cpu = circumstances("cuda", "ab"), circumstances("cpu", "ab")
    assert on_gpu["gpu"] == "a GPU"
    assert on_gpu["versions"] == on_cpu["versions"] | own


def test_a_result_says_of_which_weights_it_is() -> None:
    assert circumstances("cpu", "ab")["weights"] == "ab"
    found = circumstances("cpu", drawn("llama3_8b", 0, 1))["weights"]
    assert found == {"shape": "llama3_8b", "seeds": [0, 1]}


def test_versions_are_told_where_there_is_triton() -> None:
    pytest.importorskip("triton")
    found = gpu_versions()
    assert found.keys() == {"triton", "cuda", "cudnn"}
    assert found["triton"][0].isdigit()
