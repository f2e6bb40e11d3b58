"""The training model is transformers' Llama; its shapes fit what ships; Muon lowers a loss."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close
from transformers import AutoModelForCausalLM

from training.model import OTHER_SHAPES, READER, TINY, Reader, attend_causal, attend_rows
from training.optimiser import Muon, orthogonalise, split_parameters
from training.weights import load_weights, save_weights

SHAPE = replace(TINY, vocabulary=300, kv_heads=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(1)
    model = Reader(SHAPE)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.15)  # so that logits differ enough to compare answers
    target = tmp_path_factory.mktemp("weights")
    save_weights(model, target)
    return target


def test_logits_equal_those_of_transformers(folder):
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ours = load_weights(folder)
    ids = torch.randint(4, 300, (2, 50), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        mine = ours.logits(ours(ids, torch.arange(50)[None], attend_causal))
        assert_close(mine, theirs(ids).logits, atol=1e-4, rtol=1e-4)


def test_rows_one_after_another_attend_as_rows_of_a_batch(folder):
    ours = load_weights(folder)
    ids = torch.randint(4, 300, (3, 20), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        batch = ours(ids, torch.arange(20)[None], attend_causal)
        flat = ours(ids.reshape(1, -1), torch.arange(20).repeat(3)[None], attend_rows(20))
    assert_close(flat[0], batch.flatten(0, 1), atol=1e-5, rtol=1e-5)


def test_a_rotary_base_can_be_changed_and_is_stored(folder, tmp_path):
    save_weights(load_weights(folder, rope_theta=4e6), tmp_path)
    assert load_weights(tmp_path).shape == replace(SHAPE, rope_theta=4e6)


@pytest.mark.parametrize("shape", [READER, *OTHER_SHAPES.values()])
def test_every_shape_compared_fits_forty_megabytes_and_leaves_little_unused(shape):
    with torch.device("meta"):
        assert 38e6 < 2 * sum(one.numel() for one in Reader(shape).parameters()) < 40e6


def test_muon_takes_the_layers_matrices_and_lowers_a_loss():
    torch.manual_seed(0)
    model = Reader(SHAPE)
    matrices, rest = split_parameters(model)
    assert all(matrix.ndim == 2 for matrix in matrices)
    assert len(matrices) == 7 * SHAPE.layers
    assert len(matrices) + len(rest) == len(list(model.parameters()))
    muon, ids = Muon(matrices, momentum=0.9, decay=0.0), torch.randint(4, 300, (4, 33))
    losses = []
    for _ in range(12):
        hidden = model(ids[:, :-1], torch.arange(32)[None], attend_causal)
        loss = torch.nn.functional.cross_entropy(
            model.logits(hidden).flatten(0, 1), ids[:, 1:].flatten()
        )
        model.zero_grad()
        loss.backward()
        muon.step(0.02)
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.3


def test_orthogonalised_matrices_have_singular_values_near_one():
    stack = torch.randn(2, 24, 64, generator=torch.Generator().manual_seed(3))
    values = torch.linalg.svdvals(orthogonalise(stack).float())
    assert values.min() > 0.5
    assert values.max() < 1.5
