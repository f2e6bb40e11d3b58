"""Where time goes: rows of a profiler, groups of kernels, and sections that fail."""

import cProfile
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.serving.decode_parts import KernelTime, Parts, grouped, host_lines, kernel_times


@dataclass
class Row:
    """As the profiler tells it."""

    key: str
    count: int
    self_device_time_total: float


def test_kernels_are_told_by_the_call_the_longest_first() -> None:
    found = kernel_times([Row("a", 6, 3.0), Row("waits", 2, 0.0), Row("b", 3, 30.0)], 3)
    assert found == [KernelTime("b", 10.0, 1.0), KernelTime("a", 1.0, 2.0)]


def test_every_kernel_is_in_one_group() -> None:
    names = ("matvec_kernel", "nvjet_sm90_tst_144x64", "void gemv2T_kernel_val",
             "score_centroids_and_attend_dense_kernel", "attend_runs_kernel",
             "triton_red_fused_add_mean_0", "Memcpy DtoD")  # fmt: skip
    found = grouped(KernelTime(name, 2.0, 1.0) for name in names)
    assert found["products"] == {"us": 6.0, "launches": 3.0}
    assert found["attention"] == {"us": 4.0, "launches": 2.0}
    assert found["others"] == {"us": 4.0, "launches": 2.0}


def test_a_section_that_fails_keeps_what_it_found_and_does_not_stop_the_others(
    tmp_path: Path,
) -> None:
    def fail(found: dict[str, Any]) -> None:
        found["ms"] = 2.0
        raise RuntimeError("no memory")

    parts = Parts({"benchmark": "parts"}, tmp_path, seconds=60)
    parts.section("one", fail)
    parts.section("two", lambda found: found.update(ms=1.0))
    result = json.loads((tmp_path / "decode_parts.json").read_text())
    assert result["sections"] == {
        "one": {"ms": 2.0, "failed": "RuntimeError: no memory"},
        "two": {"ms": 1.0},
    }
    assert parts.failed == ["one"]


def test_no_section_begins_when_time_is_over(tmp_path: Path) -> None:
    parts = Parts({}, tmp_path, seconds=-1)
    parts.section("late", lambda _: pytest.fail("it began"))
    result = json.loads((tmp_path / "decode_parts.json").read_text())
    assert "left_out" in result["sections"]["late"]
    assert not parts.failed


def test_the_hosts_time_is_told_by_function() -> None:
    profiler = cProfile.Profile()
    profiler.runcall(sorted, range(1000))
    found = host_lines(profiler)
    assert "tottime" in found[0]
    assert any("sorted" in line for line in found)
