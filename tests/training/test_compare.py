"""A way to train is told by its log and its evaluation."""

import json

import pytest

from common.errors import InvalidInput
from training.compare import CHOICES, LENGTHS, TASKS, read_outcome
from training.evaluate import EvalConfig


def test_what_is_evaluated_is_in_the_table(tmp_path):
    config = EvalConfig(tmp_path, tmp_path, tasks=TASKS, lengths=LENGTHS, questions=20)
    assert {key.task for key in config.documents()} == set(TASKS)
    assert {key.length for key in config.documents()} == set(LENGTHS)


def test_an_outcome_is_what_log_and_table_say(tmp_path):
    line = {"step": 1, "seconds": 9.5, "tokens": 700, "length": 512, "rate": 1, "answer_loss": 0.5}
    (tmp_path / "training.jsonl").write_text(json.dumps(line))
    cells = {"single": {"16384": {"exact_match": 0.9}}}
    (tmp_path / "reader.json").write_text(json.dumps({"about": {"weights": "ab"}, "cells": cells}))
    choice = CHOICES["cloze in half of the stretches"]
    assert read_outcome(tmp_path, choice) == {
        "options": ["--cloze", "0.5"],
        "is_from_nothing": False,
        "seconds": 9.5,
        "tokens": 700,
        "answer_loss": {512: 0.5},
        "weights": "ab",
        "cells": cells,
    }


def test_a_training_too_short_to_report_says_so(tmp_path):
    (tmp_path / "training.jsonl").touch()
    with pytest.raises(InvalidInput, match="more seconds"):
        read_outcome(tmp_path, CHOICES["as the reader"])
