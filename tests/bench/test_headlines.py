"""README's first figures are what the results say, and only of the weights that ship."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import training
from bench import RESULTS, bars, headlines
from bench.bars import shipped_weights
from reader import WEIGHTS
from training.comparison import Place
from training.data.facts import Question
from training.scoring import row_of, score

PLACES = (*headlines.PLANTED, *headlines.NATURAL, *headlines.ARTICLES)


def test_readme_says_what_the_results_say() -> None:
    text = headlines.README.read_text()
    assert text.count(headlines.START) == text.count(headlines.END) == 1
    begin, end = text.index(headlines.START), text.index(headlines.END) + len(headlines.END)
    assert text[begin:end] == headlines.headlines(), "run python -m bench.headlines"
    begin = text.index(headlines.WHY)
    end = text.index(headlines.END_OF_WHY) + len(headlines.END_OF_WHY)
    assert text[begin:end] == headlines.why(), "run python -m bench.headlines"
    assert end < 3000, "it is on the first screen"


def test_planted_facts_never_stand_without_natural_prose() -> None:
    texts = [headlines.README.read_text(), (WEIGHTS / "README.md").read_text().split("\n## ")[0]]
    for text in texts:
        lines = [line for line in re.split(r"\n\n|\n\|", text) if "planted" in line.lower()]
        assert lines
        for line in lines:
            assert "natural prose" in " ".join(line.lower().split()), line
    assert "demonstration" in texts[0]
    assert "demonstration" in texts[1]


def test_the_first_screen_follows_the_results(results: Path) -> None:
    before = headlines.why()
    load = json.loads((results / "load_cuda.json").read_text())
    assert f"**{load['rows'][4]['first_token_ms']['p50']:.0f} ms**" in before
    assert "245 ms" in before
    change(results / "first_token_cpu.json", "first_token_ms.transformers_warm_prefix.p50", 777.0)
    change(results / "decode_llama3_8b_128k.json", "plans.all.reread_ms", 5400.0)
    change(results / "load_cuda.json", "rows.5.first_token_ms.p50", 55.0)
    after = headlines.why()
    assert "777 ms" in after
    assert "55 ms" in after
    assert after.count("5.4 s") == 2, "reading again, in the sentence and in the table"
    change(results / "first_token_cpu_128k.json", "first_token_ms.lectern_balanced.p50", 321.0)
    assert headlines.why().count("321 ms") == 2, "in the sentence and in the table"
    for name in ("first_token_cpu.json", "first_token_cpu_128k.json"):
        change(results / name, "weights", "0" * 64)
    assert "bundled reader" not in headlines.why()


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of all results in one folder."""
    for file in (*RESULTS.glob("*.json"), *training.RESULTS.glob("*.json")):
        shutil.copy(file, tmp_path)
    monkeypatch.setattr(bars, "FOLDERS", (tmp_path,))
    return tmp_path


def change(file: Path, path: str, value: Any) -> None:
    """Change one field of a result; its path has dots between keys."""
    result = json.loads(file.read_text())
    *way, last = path.split(".")
    part = result
    for key in way:
        part = part[int(key) if isinstance(part, list) else key]
    part[last] = value
    file.write_text(json.dumps(result))


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("first_token_cpu.json", "ratios.reread.p50"),
        ("first_token_cpu.json", "ratios.full_attention_resident.p20"),
        ("first_token_cpu.json", "ratios.transformers_warm_prefix.p80"),
        ("load_cuda.json", "rows.4.ms_per_later_token.p50"),
        ("load_cuda.json", "rows.2.tokens_per_s"),
        ("prefill_graph.json", "rows.2.captured_ms.p50"),
        ("prefill_graph.json", "rows.3.captured_ms.p50"),
        (
            "decode_llama3_8b_128k.json",
            "plans.all.128K.first_token_baselines.warm_prefix_ms.p50",
        ),
        ("decode_llama3_8b_128k.json", "plans.all.reread_ms"),
        ("decode_llama3_8b.json", "plans.half.512K.token_ms.p50"),
        ("decode_llama3_8b.json", "plans.all.4K.full_attention_ms.p50"),
        ("kernels_decode.json", "summary.speedup_512k_90"),
        ("kernels_prefill.json", "microseconds.512K x 64.90.speedup.best"),
        ("kernels_prefill.json", "machine.copy_bytes_per_s"),
        ("precompute.json", "plans.all.seconds.total.p50"),
    ],
)
def test_a_changed_figure_changes_the_table(results: Path, name: str, path: str) -> None:
    before = headlines.headlines()
    change(results / name, path, 7.7)
    assert headlines.headlines() != before


def test_a_figure_of_other_weights_is_left_out(results: Path) -> None:
    assert "times [" in headlines.headlines()
    change(results / "first_token_cpu.json", "weights", "0" * 64)
    assert "to be measured: `python -m bench.serving.first_token`" in headlines.headlines()


def evaluation(wrong: set[int], weights: str) -> dict[str, Any]:
    """An evaluation's result in which so many questions of each row were answered wrong."""
    cells: dict[str, Any] = {}
    for place in PLACES:
        cells.setdefault(place[0], {})["own" if place[1] == 0 else str(place[1])] = row(wrong)
    return {"about": {"weights": weights, "commit": "0"}, "cells": cells}


def row(wrong: set[int]) -> dict[str, Any]:
    asked = [Question(f"Which is number {n}?", f"n{n}", "single") for n in range(100)]
    answers = (("" if n in wrong else one.answer, one) for n, one in enumerate(asked))
    return row_of([score(one, given, 0.15) for given, one in answers], 5)


def write(results: Path, weights: str) -> None:
    served, full = evaluation({1, 2, 3}, weights), evaluation({1, 2}, weights)
    (results / headlines.SERVED).write_text(json.dumps(served))
    (results / headlines.FULL).write_text(json.dumps(full))


def test_accuracy_has_intervals_full_attention_and_a_paired_difference(results: Path) -> None:
    write(results, shipped_weights() + "0" * 52)
    found = headlines.accuracy(headlines.PLANTED, headlines._right)
    assert re.fullmatch(
        r"0.970 right \[0.944, 0.984\] of 300 questions, reading 15.0% of the cache; "
        r"full attention over everything 0.980 right \[0.957, 0.991\]; "
        r"difference -0.010 \[-0.0\d\d, [-+]0.0\d\d\], paired",
        found,
    ), found
    assert "0.970 [0.93" in headlines.accuracy(headlines.ARTICLES, headlines._f1)
    assert headlines.UNMEASURED not in headlines.headlines()


@pytest.mark.parametrize("weights", ["0" * 64, None])
def test_accuracy_of_other_or_unknown_weights_is_not_told(
    results: Path, weights: str | None
) -> None:
    write(results, weights or "")
    if weights is None:
        change(results / headlines.SERVED, "about.weights", None)
    assert headlines.headlines().count(headlines.UNMEASURED) == 3


def test_a_row_that_was_not_measured_is_not_told(results: Path) -> None:
    write(results, shipped_weights() + "0" * 52)
    places: tuple[Place, ...] = (("single", 65_536),)
    assert headlines.accuracy(places, headlines._right) == headlines.UNMEASURED


def test_every_first_token_is_compared_in_the_same_three_ways() -> None:
    said = headlines.against("158 times", "1.9 times", "4.4 times")
    assert [part.split(" sooner")[0] for part in said.split(", ")] == [
        "158 times", "1.9 times", "4.4 times",
    ]  # fmt: skip
