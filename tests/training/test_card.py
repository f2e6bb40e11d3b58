"""The model card says what the results say, and the training log is counted run by run."""

import json

import pytest

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
