"""A choice of the reader's training is told by its log and its examination."""

import json

import pytest

from bench.reader_choices import CELLS, CHOICES, LENGTHS, read_outcome
from common.errors import InvalidInput
from training.tasks import Plan


def test_what_is_examined_is_in_the_table(tmp_path):
    plan = Plan(tmp_path, tmp_path, "cpu", cells=CELLS, lengths=LENGTHS, questions=20)
    assert {task.cell for task in plan.tasks()} == set(CELLS)
    assert {task.length for task in plan.tasks()} == set(LENGTHS)


def test_an_outcome_is_what_log_and_table_say(tmp_path):
    line = {"step": 1, "seconds": 9.5, "tokens": 700, "length": 512, "rate": 1, "answer_loss": 0.5}
    (tmp_path / "training.jsonl").write_text(json.dumps(line))
    cells = {"single": {"16384": {"exact_match": 0.9}}}
    (tmp_path / "reader.json").write_text(json.dumps({"cells": cells}))
    choice = CHOICES["cloze in half of the stretches"]
    assert read_outcome(tmp_path, choice) == {
        "options": ["--cloze", "0.5"],
        "is_from_nothing": False,
        "seconds": 9.5,
        "tokens": 700,
        "answer_loss": {512: 0.5},
        "cells": cells,
    }


def test_a_training_too_short_to_report_says_so(tmp_path):
    (tmp_path / "training.jsonl").touch()
    with pytest.raises(InvalidInput, match="more seconds"):
        read_outcome(tmp_path, CHOICES["as the reader"])
