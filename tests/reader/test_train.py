"""Training on a tiny shape: the loss falls, and a run goes on from its state or weights alone."""

import io
import json
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

import reader
from reader.data.documents import Composer, Encoder, Sources
from reader.data.feed import Batch, Feed, vocabulary_of
from reader.data.haystack import BoundaryTable
from reader.data.prose import handbook
from reader.data.speech import Voice
from reader.model import Reader
from reader.prepare import tokenize_all
from reader.shape import TINY
from reader.train import Progress, Schedule, Stage, Trainer, parse_stages, train

TOKENIZER = Path(reader.__file__).parent / "weights" / "tokenizer.json"
SCHEDULE = Schedule((Stage(128, 60.0),), peak=2e-3, decay_share=0.5)


@pytest.fixture(scope="module")
def sources():
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    table = BoundaryTable(vocabulary_of(tokenizer))
    ids = tokenize_all(tokenizer, {"handbook": handbook(Random(1)) * 3})["handbook"]
    return Sources([table.haystack("handbook", ids)], [1.0], [])


@pytest.fixture(scope="module")
def batch(sources):
    composer = Composer(Encoder(Tokenizer.from_file(str(TOKENIZER))), sources, Voice())
    examples = [composer.example(128, Random(seed)) for seed in range(4)]
    return Batch(np.stack([e.ids for e in examples]), np.stack([e.weights for e in examples]))


def test_the_loss_falls_and_a_stored_state_goes_on_where_it_was(batch, tmp_path):
    torch.manual_seed(0)
    trainer = Trainer(Reader(TINY), SCHEDULE, "cpu")
    trainer.progress.steps_here = 1000  # past the warm-up
    losses = [float(trainer.step(batch)[0]) for _ in range(12)]
    assert losses[-1] < losses[0] - 0.1
    trainer.save(tmp_path / "state.pt")
    other = Trainer(Reader(TINY), SCHEDULE, "cpu")
    other.restore(tmp_path / "state.pt")
    assert other.progress == trainer.progress
    assert float(other.step(batch)[0]) == pytest.approx(float(trainer.step(batch)[0]), rel=1e-2)


def test_new_moments_warm_up_again():
    begun = Progress(step=5000, seconds=10, steps_here=0)
    running = Progress(step=5000, seconds=10, steps_here=5000)
    assert SCHEDULE.rate(begun) < 0.05 * SCHEDULE.rate(running)


def test_the_rate_decays_to_nothing_at_the_end():
    assert SCHEDULE.rate(Progress(seconds=60, steps_here=9999)) == 0
    assert SCHEDULE.rate(Progress(seconds=20, steps_here=9999)) == pytest.approx(2e-3)
    assert SCHEDULE.stage_at(61) is None


def test_stages_are_read_from_text():
    assert parse_stages("512:80,2048:1.5") == (Stage(512, 80.0), Stage(2048, 1.5))


def test_a_feed_of_processes_gives_batches_and_training_reports_them(sources, monkeypatch):
    monkeypatch.setattr("reader.train.TOKENS_A_STEP", 512)
    monkeypatch.setattr("reader.train._REPORT_EVERY", 1)
    feed, log = Feed(TOKENIZER, sources, Voice(), workers=1, seed=1), io.StringIO()
    try:
        finished = train(Trainer(Reader(TINY), SCHEDULE, "cpu"), feed, 0.0, log)
    finally:
        feed.close()
    assert not finished
    assert json.loads(log.getvalue().splitlines()[0])["length"] == 128
