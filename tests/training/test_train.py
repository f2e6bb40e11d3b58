"""Training on a tiny shape: the loss falls, runs go on, ranks agree, lengths mix."""

import json
from argparse import Namespace
from dataclasses import replace
from itertools import count, islice, repeat
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

import reader
from training.data.batch_loader import Batch, BatchLoader, vocabulary_of
from training.data.documents import Composer, Encoder, Sources, repeated_tokens
from training.data.haystack import BoundaryTable
from training.data.phrasing import StyleConfig
from training.data.prose import handbook
from training.history import read_log
from training.model import TINY, Reader
from training.prepare import tokenize_all
from training.ranks import Rank, launch
from training.schedule import Progress, Schedule, Stage, parse_stages
from training.train import Run, first_reader, train
from training.trainer import Trainer
from training.weights import save_weights

TOKENIZER = reader.WEIGHTS / "tokenizer.json"
SCHEDULE = Schedule((Stage(((128, 1.0),), 60.0),), peak=2e-3, decay_share=0.5)


@pytest.fixture(scope="module")
def sources():
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    table = BoundaryTable(vocabulary_of(tokenizer))
    ids = tokenize_all(tokenizer, {"handbook": handbook(Random(1)) * 3})["handbook"]
    return Sources([table.haystack("handbook", ids)], [1.0], [])


@pytest.fixture(scope="module")
def batch(sources):
    composer = Composer(Encoder(Tokenizer.from_file(str(TOKENIZER))), sources, StyleConfig())
    examples = [composer.example(48, Random(seed)) for seed in range(4)]
    return Batch(np.stack([e.ids for e in examples]), np.stack([e.weights for e in examples]))


@pytest.mark.parametrize("optimiser", ["muon", "adamw"])
def test_the_loss_falls_and_a_stored_state_goes_on_where_it_was(batch, tmp_path, optimiser):
    torch.manual_seed(0)
    trainer = Trainer(Reader(TINY), SCHEDULE, Rank(), optimiser)
    trainer.progress.steps_here = 1000  # past the warm-up
    losses = [float(trainer.step(batch)[0]) for _ in range(12)]
    assert losses[-1] < losses[0] - 0.1
    trainer.save(tmp_path / "state.pt")
    other = Trainer(Reader(TINY), SCHEDULE, Rank(), optimiser)
    other.restore(tmp_path / "state.pt")
    assert other.progress == trainer.progress
    assert float(other.step(batch)[0]) == pytest.approx(float(trainer.step(batch)[0]), rel=1e-2)


@pytest.mark.parametrize(("theta", "trained"), [(None, TINY.rope_theta), (1e4, 1e4)])
def test_new_and_stored_weights_take_the_rotary_base_that_is_asked_for(tmp_path, theta, trained):
    save_weights(Reader(TINY), tmp_path)
    for weights in (None, tmp_path):
        options = Namespace(shape="tiny", weights=weights, theta=theta)
        assert first_reader(options).shape == replace(TINY, rope_theta=trained)


def test_new_moments_warm_up_again():
    begun = Progress(step=5000, seconds=10, steps_here=0)
    running = Progress(step=5000, seconds=10, steps_here=5000)
    assert SCHEDULE.rate(begun) < 0.05 * SCHEDULE.rate(running)


def test_the_rate_decays_to_nothing_at_the_end():
    assert SCHEDULE.rate(Progress(seconds=60, steps_here=9999)) == 0
    assert SCHEDULE.rate(Progress(seconds=20, steps_here=9999)) == pytest.approx(2e-3)
    assert replace(SCHEDULE, warm_up=0).rate(Progress()) == pytest.approx(2e-3)
    assert SCHEDULE.stage_at(61) is None


def test_a_schedule_stretches_to_the_time_that_is_left():
    longer = Schedule(parse_stages("512:30,2048:10"), 1e-3, 0.5).lasting(80)
    assert [stage.seconds for stage in longer.stages] == [60, 20]


def test_stages_are_read_from_text():
    first, second = parse_stages("512:80,2048*3+8192:1.5")
    assert first == Stage(((512, 1.0),), 80.0)
    assert second == Stage(((2048, 3.0), (8192, 1.0)), 1.5)


def test_lengths_come_in_their_shares_and_evenly():
    drawn = list(islice(parse_stages("2*6+8*3+32*1:9")[0].lengths(), 100))
    assert [drawn.count(length) for length in (2, 8, 32)] == [60, 30, 10]
    assert all(drawn[start : start + 20].count(32) == 2 for start in range(0, 100, 20))


def test_a_feed_gives_the_lengths_in_order_and_the_same_data_for_a_seed(sources):
    lengths = parse_stages("64+256:9")[0].lengths
    found = []
    for workers in (1, 2):
        feed = BatchLoader(TOKENIZER, sources, StyleConfig(), workers=workers, seed=5)
        try:
            found.append(list(islice(feed.batches(lengths(), 512), 6)))
        finally:
            feed.close()
    one, two = found
    assert [batch.ids.shape for batch in one] == [(8, 65), (2, 257)] * 3
    assert all(np.array_equal(a.ids, b.ids) for a, b in zip(one, two, strict=True))


def test_an_example_without_end_costs_itself_alone(sources, monkeypatch, capfd):
    number = count()

    def example(_, length, rng):
        is_endless = next(number) == 3
        while is_endless:
            pass
        return repeated_tokens(length, rng)

    monkeypatch.setattr(Composer, "example", example)
    monkeypatch.setattr("training.data.batch_loader._LONGEST_S", 0.2)
    feed = BatchLoader(TOKENIZER, sources, StyleConfig(), workers=1, seed=5)
    try:
        batches = list(islice(feed.batches(repeat(64), 256), 4))
    finally:
        feed.close()
    assert [batch.ids.shape for batch in batches] == [(4, 65)] * 4
    assert feed.num_failed == 1
    assert "no example of 64 tokens by seed" in capfd.readouterr().err


def test_mixed_lengths_are_reported_apart(sources, tmp_path, monkeypatch):
    monkeypatch.setattr("training.train._REPORT_EVERY", 4)
    clock = count()  # a step takes a second
    monkeypatch.setattr("training.train.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    schedule = Schedule(parse_stages("64+128:600"), 2e-3, 0.5)
    feed, saved = BatchLoader(TOKENIZER, sources, StyleConfig(), workers=1, seed=1), []
    trainer = Trainer(Reader(TINY), schedule, Rank())
    with (tmp_path / "log").open("w") as log:
        run = Run(feed, 256, 13.0, log, lambda: saved.append(1))
        finished = train(trainer, run)
    feed.close()
    assert not finished
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["length"] for line in lines[:2]] == [64, 128]
    assert not any(line["run_starts"] for line in read_log(tmp_path / "log"))


def test_two_ranks_step_as_one_would_on_both_batches(batch, tmp_path):
    launch(_step, 2, "cpu", batch, tmp_path)
    torch.manual_seed(0)
    alone = Trainer(Reader(TINY), SCHEDULE, Rank())
    alone.progress.steps_here = 1000
    halves = [_half(batch, place) for place in (0, 1)]
    gradients = []
    for half in halves:
        torch.autograd.backward(alone._report(half)[0])
        gradients.append([p.grad.clone() for p in alone.reader.parameters()])
        alone.reader.zero_grad()
    means = torch.load(tmp_path / "0.pt")
    for one, two, mean in zip(*gradients, means["gradients"], strict=True):
        assert ((one + two) / 2 - mean).norm() < 0.02 * mean.norm()  # bf16 sums in other orders
        assert (one - mean).norm() > 0.1 * mean.norm()
    other = torch.load(tmp_path / "1.pt")
    assert all(map(torch.equal, means["weights"], other["weights"]))


def _half(batch, place):
    return replace(batch, ids=batch.ids[2 * place :][:2], weights=batch.weights[2 * place :][:2])


def _step(rank, batch, folder):
    rank.join()
    torch.manual_seed(0)
    trainer = Trainer(Reader(TINY), SCHEDULE, rank)
    trainer.progress.steps_here = 1000
    torch.autograd.backward(trainer._report(_half(batch, rank.place))[0])
    gradients = [p.grad for p in trainer.reader.parameters()]
    rank.average(gradients)
    gradients = [gradient.clone() for gradient in gradients]
    trainer.reader.zero_grad()
    trainer.step(_half(batch, rank.place))
    weights = [p.detach().clone() for p in trainer.reader.parameters()]
    torch.save({"gradients": gradients, "weights": weights}, folder / f"{rank.place}.pt")
    assert rank.agree(float(rank.place)) == 0.0
    rank.leave()
