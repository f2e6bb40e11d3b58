"""What a comparison of the reader's shapes says is what their logs say."""

import json

import pytest

from bench.reader_shapes import count_parameters, read_training
from training.shape import OTHERS, READER, TINY


@pytest.mark.parametrize("shape", [READER, *OTHERS.values()])
def test_every_shape_compared_fits_forty_megabytes_and_leaves_little_unused(shape):
    assert 38e6 < 2 * count_parameters(shape) < 40e6


def test_a_shape_is_told_by_when_it_found_answers_and_how_it_ended(tmp_path):
    losses = {1: (3.0, 2.0), 2: (1.5, 0.9), 3: (0.8, 0.7), 20: (0.2, 0.4)}
    lines = [
        {"step": second, "seconds": second, "tokens": 100 * second, "length": length,
         "rate": 1e-3, "answer_loss": loss}
        for second, pair in losses.items()
        for length, loss in zip((512, 2048), pair, strict=True)
    ]  # fmt: skip
    log = tmp_path / "training.jsonl"
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    found = read_training(log, TINY)
    assert (found.seconds, found.tokens, found.found_after_s) == (20, 2000, 3)
    assert found.answer_loss == {512: 0.2, 2048: 0.4}
    assert found.parameters == count_parameters(TINY)


def test_a_shape_that_never_found_answers_says_so(tmp_path):
    line = {"step": 1, "seconds": 1, "tokens": 9, "length": 512, "rate": 1, "answer_loss": 2.5}
    log = tmp_path / "training.jsonl"
    log.write_text(json.dumps(line))
    assert read_training(log, TINY).found_after_s is None
