"""Rows come back from a result in the table's order, whatever was finished first."""

from training.eval_tasks import eval_tasks
from training.report import false_refusals, has_every_task, rows_of, short_length

ROW = {
    "documents": 10, "questions": 200, "exact_match": 0.99, "interval_95": [0.9643, 0.9973],
    "refused": 0.005, "f1": 0.995, "f1_interval_95": [0.99, 1.0],
}  # fmt: skip


def test_rows_are_in_the_tables_order():
    cells = {
        "handbook": {"own": ROW},
        "SQuAD, paragraph alone": {"own": ROW},
        "list": {"16384": ROW},
        "single": {"131072": ROW, "4096": ROW, "16384": ROW},
    }
    assert [(row.task, row.length) for row in rows_of({"cells": cells})] == [
        ("single", 4096), ("single", 16_384), ("single", 131_072), ("list", 16_384),
        ("SQuAD, paragraph alone", 0), ("handbook", 0),
    ]  # fmt: skip


def test_shares_are_written_with_their_intervals():
    (row,) = rows_of({"cells": {"single": {"4096": ROW}}})
    assert row.share() == "0.990 [0.964, 0.997]"
    assert row.overlap() == "0.995 [0.990, 1.000]"
    assert [short_length(length) for length in (4096, 131_072, 0)] == ["4K", "128K", "own"]


def test_false_refusals_count_what_the_document_answers_at_the_bars_length():
    cells = {
        "single": {"16384": ROW | {"refused": 0.02}, "4096": ROW | {"refused": 1.0}},
        "single, held-out wordings": {"16384": ROW | {"refused": 0.08, "questions": 100}},
        "unanswerable": {"16384": ROW | {"refused": 0.9}},
    }
    found = false_refusals(rows_of({"cells": cells}))
    assert found == {
        "questions": 300,
        "share": 0.04,
        "trained_wordings": {"questions": 200, "share": 0.02},
    }


def test_a_share_over_all_tasks_needs_every_task_at_that_length():
    cells = {task.name: {"16384": ROW} for task in eval_tasks()}
    assert has_every_task(rows_of({"cells": cells}))
    assert not has_every_task(rows_of({"cells": cells | {"list": {"4096": ROW}}}))
