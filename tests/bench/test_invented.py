"""Shipped documents are examined as a server answers: at each budget, right answers counted."""

import json
from pathlib import Path

import pytest

from bench.invented import ask, examine, stored
from engine.model.loader import LoadedModel
from tests.models import FAMILIES, loaded
from training.data.facts import Question
from training.examiner import Sheet

TEXT = "# Lamp\n\n" + "The lamp of Varnholm burned twelve litres of oil a night.\n\n" * 20


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


def test_right_answers_are_counted_at_each_budget(model: LoadedModel, tmp_path: Path) -> None:
    sheet = Sheet(TEXT, (Question("How much oil?", "?", "shipped"),))
    (said,) = ask(model, stored(model, TEXT), sheet, 1.0)
    assert said["right"] is False
    questions = [
        {"question": "How much oil?", "answer": said["given"]},
        {"question": "How much oil?", "answer": "?"},
    ]
    (tmp_path / "lamp.md").write_text(TEXT)
    (tmp_path / "questions.json").write_text(json.dumps(questions))
    found = examine(model, tmp_path)
    assert found["exact"]["right"] == 1
    assert [one["right"] for one in found["exact"]["asked"]] == [True, False]
    assert found["exact"]["asked"][0]["loaded"] == 1.0
    assert 0 < found["balanced"]["asked"][0]["loaded"] < 1.0
