"""The scans of tiles: each runs from end to end, and a wrong or failing variant is dropped."""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from bench.timing import WrongResult

pytest.importorskip("triton")

from bench.kernels import decode_tiles, kmeans_tiles, prefill_tiles
from bench.kernels.scan import Scan, parse

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="the interpreter's dry run")


# A stage of a part and one of the whole step: the times at the end are of every kernel.
DECODE_STAGES = ("children", "half_attend")


@pytest.mark.parametrize(
    ("name", "main", "stages", "count"),
    [
        ("prefill", prefill_tiles.main, tuple(prefill_tiles.STAGES), 2),
        ("decode", decode_tiles.main, DECODE_STAGES, 1),
        ("kmeans", kmeans_tiles.main, tuple(kmeans_tiles.STAGES), 2),
    ],
)
def test_a_dry_run_tries_variants_of_every_stage(
    name: str,
    main: Callable[[Sequence[str]], None],
    stages: Sequence[str],
    count: int,
    tmp_path: Path,
) -> None:
    main(["--dry", "--variants", str(count), "--only", *stages, "--out", str(tmp_path)])
    rows = json.loads((tmp_path / f"kernels_{name}_tiles.json").read_text())["microseconds"]
    assert [row["stage"] for row in rows] == [stage for stage in stages for _ in range(count)]
    assert all(row["p50"] > 0 for row in rows)


def scan(tmp_path: Path, *given: str) -> Scan:
    options = ["--dry", "--out", str(tmp_path), *given]
    return Scan("scan", parse(argparse.ArgumentParser(), ["one", "other"], options))


def pick(scan: Scan, variants: Sequence[int], stage: str = "one") -> int:
    """Variants are so much work; multiples of 10 fail, 7 is wrong."""

    def check(variant: int) -> None:
        if variant == 7:
            raise WrongResult("It is wrong.")
        if variant % 10 == 0:
            raise ValueError("It does not compile.")

    def steps(variant: int) -> list[Callable[[], object]]:
        return [lambda: torch.zeros(variant * 400_000).sum()]

    return scan.pick("case", stage, "CONSTANT", variants, check, steps)


def test_the_fastest_right_variant_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scanned = scan(tmp_path)
    assert pick(scanned, [90, 63, 7, 1, 10]) == 1
    scanned.close()
    told = capsys.readouterr().out
    assert "dropped 7: WrongResult: It is wrong." in told
    assert "dropped 10: ValueError: It does not compile." in told
    assert "CONSTANT: 1  (case:" in told
    kept = json.loads((tmp_path / "scan.json").read_text())
    assert [row["variant"] for row in kept["microseconds"]] == [90, 63, 7, 1, 10]


def test_a_stage_without_a_right_variant_fails_the_scan(tmp_path: Path) -> None:
    scanned = scan(tmp_path)
    assert pick(scanned, [7, 10]) == 7
    with pytest.raises(SystemExit, match="case one"):
        scanned.close()


def test_no_trial_begins_once_the_time_is_spent(tmp_path: Path) -> None:
    scanned = scan(tmp_path, "--seconds", "-1")
    assert pick(scanned, [3, 1]) == 3
    scanned.close()
    assert json.loads((tmp_path / "scan.json").read_text())["microseconds"] == []


def test_stages_that_were_not_asked_for_are_left_out(tmp_path: Path) -> None:
    scanned = scan(tmp_path, "--only", "other")
    assert pick(scanned, [63, 1]) == 63
    assert pick(scanned, [63, 1], "other") == 1
