"""A model folder with random weights is served as any other."""

import pytest
import torch

from bench.random_llama import ModelShape
from bench.serving.model_folder import HALF_STREAMING, write_model_folder
from engine.config import ModelConfig
from engine.model.loader import load_model

SHAPE = ModelShape(9000, 32, 64, 1, 2, 2)  # more numbers than the tokenizer has tokens


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("random") / "model"
    write_model_folder(path, SHAPE, "cpu", context_tokens=1024)
    return path


def test_it_loads_with_the_bundled_tokenizer_and_its_template(folder):
    model = load_model(ModelConfig(path=str(folder)))
    assert model.spec.context_length == 1024
    assert len(model.prompt.encode_question("Continue.")) > 1
    assert model.tokenizer.decode([8999]) == ""


def test_no_token_beyond_the_tokenizer_has_a_logit(folder):
    weights = load_model(ModelConfig(path=str(folder))).model.lm_head.weight
    assert not weights[8192:].any()
    assert bool(weights[:8192].abs().sum(1).gt(0).all())
    assert torch.isfinite(weights).all()


def test_every_other_head_streams_where_its_plan_is_asked_for(folder):
    assert load_model(ModelConfig(path=str(folder))).plan.num_retrieval(0) == 2
    model = load_model(ModelConfig(path=str(folder), heads=str(folder / HALF_STREAMING)))
    assert model.plan.num_retrieval(0) == 1
