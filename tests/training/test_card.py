"""The model card says what the results say, and the training log is counted run by run."""

import json
import shutil
from typing import Any

import pytest

from engine.model.fingerprint import weights_fingerprint
from training import card
from training.history import read_log, runs_of
from training.model import READER


def test_the_card_in_the_tree_is_what_the_results_say():
    assert card.CARD.read_text() == card.card()


def test_the_card_shows_every_row_with_needles():
    result = json.loads((card.RESULTS / "reader_full_attention.json").read_text())
    text = card.card()
    for name, rows in result["cells"].items():
        if "own" not in rows:
            assert text.count(f"\n| {name} |") == 1
            low, high = next(iter(rows.values()))["interval_95"]
            assert f"[{low:.3f}, {high:.3f}]" in text


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A copy of the results, as served beside full attention, both of the weights that ship."""
    for file in card.RESULTS.iterdir():
        shutil.copy(file, tmp_path)
    full = json.loads((tmp_path / card.FULL).read_text())
    served: dict[str, Any] = json.loads(json.dumps(full))
    for result, wrong in ((full, (3,)), (served, (3, 4))):
        result["about"] |= {"weights": weights_fingerprint(card.WEIGHTS), "budget": 0.15}
        result["about"]["head_plan"] = {"method": "razor", "retrieval_ratio": 0.2667}
        for row in (row for rows in result["cells"].values() for row in rows.values()):
            right = [int(place not in wrong) for place in range(100)]
            row["by_question"] = dict.fromkeys(("right", "f1", "loaded"), right)
            row["by_question"]["asked"] = list(range(100))
    (tmp_path / card.FULL).write_text(json.dumps(full))
    (tmp_path / card.SERVED).write_text(json.dumps(served))
    monkeypatch.setattr(card, "RESULTS", tmp_path)
    return tmp_path


def test_what_is_served_stands_beside_full_attention_in_pairs(results):
    text = card.card()
    assert "weights 0dff2a84c2cc" in text
    assert "does not record" not in text
    for name in ("excerpts, held-out", "SQuAD, whole article", "list"):
        (row,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
        assert "| -0.010 [-0.0" in row
    (results / card.RELEASED).write_text(
        json.dumps({
            "about": {"weights": weights_fingerprint(card.WEIGHTS)},
            "cells": {"excerpts, release": {"16384": {
                "questions": 300, "exact_match": 0.5, "interval_95": [0.44, 0.56],
                "refused": 0.0, "f1": 0.5, "f1_interval_95": [0.44, 0.56],
            }}},
        })
    )  # fmt: skip
    assert "excerpts, release 0.500 [0.440, 0.560]" in card.card()


def test_other_questions_are_not_compared_in_pairs(results):
    served = json.loads((results / card.SERVED).read_text())
    served["cells"]["list"]["16384"]["by_question"]["asked"][0] = 7
    (results / card.SERVED).write_text(json.dumps(served))
    (row,) = [line for line in card.card().splitlines() if line.startswith("| list |")]
    assert "| unpaired |" in row


@pytest.mark.parametrize("name", [card.FULL, card.SERVED, "fictional_balanced.json"])
def test_a_result_of_other_weights_makes_no_card(results, name):
    found = json.loads((results / name).read_text())
    found["about"]["weights"] = "0" * 64
    (results / name).write_text(json.dumps(found))
    with pytest.raises(ValueError, match=f"{name} is of other weights"):
        card.card()


def test_every_file_of_the_model_names_the_same_context():
    config = json.loads((card.WEIGHTS / "config.json").read_text())
    tokenizer = json.loads((card.WEIGHTS / "tokenizer_config.json").read_text())
    assert config["max_position_embeddings"] == READER.context_length
    assert tokenizer["model_max_length"] == READER.context_length


def test_long_lines_are_broken_and_list_items_stay_one():
    text = card.wrapped("- " + "word " * 40 + "\n\n" + "word " * 40).splitlines()
    assert max(map(len, text)) <= 100
    assert [line[:3] for line in text] == ["- w", "  w", "  w", "", "wor", "wor"]


def test_runs_are_told_apart_where_steps_fall_back(tmp_path):
    lines = [
        {"step": step, "seconds": seconds, "tokens": tokens, "length": length, "rate": rate,
         "answer_loss": loss}
        for step, seconds, tokens, length, rate, loss in (
            (20, 1.0, 100, 512, 1e-3, 4.0),
            (40, 10.0, 200, 512, 2e-3, 0.2),
            (40, 10.0, 200, 2048, 2e-3, 0.4),
            (20, 5.0, 300, 2048, 1e-3, 0.1),
        )
    ]  # fmt: skip
    (tmp_path / "log").write_text("".join(json.dumps(line) + "\n" for line in lines))
    log = read_log(tmp_path / "log")
    assert [line["total_tokens"] for line in log] == [100, 200, 200, 500]
    first, second = runs_of(log)
    assert (first.lengths, first.seconds, first.tokens, first.peak) == ((512, 2048), 10, 200, 2e-3)
    assert first.losses == {512: pytest.approx(0.2), 2048: pytest.approx(0.4)}
    assert (second.lengths, second.tokens) == ((2048,), 300)
