"""Training of gates."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from common.errors import InvalidInput, JobCancelled
from engine.model.loader import LoadedModel, assemble
from precompute.heads.base import Measure
from precompute.heads.duo import Duo, DuoConfig, Recipe
from precompute.heads.duo.train import learning_rate, train_gates
from tests.models import FAMILIES, byte_tokenizer, loaded, random_model, unheard

CONFIG = DuoConfig(
    steps=12, min_tokens=600, max_tokens=700, num_passkeys=2, max_words=2,
    learning_rate=0.2, num_sinks=4, window=32,
)  # fmt: skip


def model_of_one_head(layer: int, head: int) -> LoadedModel:
    """A model in which a single KV head's attention reaches the output."""
    model = random_model(FAMILIES["llama"])
    size = 2 * 16  # columns of a KV head's two query heads
    for at, block in enumerate(model.model.layers):
        kept = block.self_attn.o_proj.weight[:, head * size : (head + 1) * size].clone()
        block.self_attn.o_proj.weight.zero_()
        if at == layer:
            block.self_attn.o_proj.weight[:, head * size : (head + 1) * size] = kept
    return assemble(model, byte_tokenizer(), name="one head", fingerprint="")


@pytest.mark.parametrize("recipe", get_args(Recipe))
@pytest.mark.parametrize(("layer", "head"), [(0, 1), (1, 0)])
def test_only_the_gate_that_answers_depend_on_stays_open(
    layer: int, head: int, recipe: Recipe
) -> None:
    config = replace(CONFIG, recipe=recipe)
    gates = train_gates(model_of_one_head(layer, head), config, unheard)
    assert gates[layer, head] > 0.5
    gates[layer, head] = 0.0
    assert gates.max() == 0.0


def test_without_regularisation_no_useless_gate_moves() -> None:
    gates = train_gates(model_of_one_head(0, 1), replace(CONFIG, regularisation=0.0), unheard)
    assert gates[1].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("family", ["gemma2", "qwen3", "phi3"])
def test_any_models_gates_are_trained_and_stay_in_their_range(family: str) -> None:
    gates = train_gates(loaded(FAMILIES[family]), replace(CONFIG, steps=2), unheard)
    assert gates.shape == (2, 2)
    assert 0 <= gates.min() < gates.max() <= 1


def test_gates_that_are_pushed_beyond_their_range_stay_at_its_ends() -> None:
    """From the middle, the one gate that matters is pushed up and the others are drawn down."""
    gates = train_gates(model_of_one_head(0, 1), CONFIG, unheard, torch.full((2, 2), 0.5))
    assert gates.tolist() == [[0.0, 1.0], [0.0, 0.0]]


def test_the_model_is_left_as_it_was() -> None:
    model = loaded(FAMILIES["llama"])
    model.model.requires_grad_(True)
    before = {name: weight.clone() for name, weight in model.model.named_parameters()}
    train_gates(model, replace(CONFIG, steps=2), unheard)
    assert not any(module.training for module in model.model.modules())
    for name, weight in model.model.named_parameters():
        assert weight.requires_grad
        assert weight.grad is None
        assert torch.equal(weight, before[name])


def stop_after(steps: int) -> Any:
    def progress(done: int, _total: int) -> None:
        if done == steps:
            raise JobCancelled("Enough for today.")

    return progress


def test_a_training_that_was_stopped_goes_on_to_the_same_gates(tmp_path: Path) -> None:
    model = loaded(FAMILIES["llama"])
    config = replace(CONFIG, steps=6, learning_rate=0.05, save_steps=2)
    whole = train_gates(model, config, unheard)
    saved = replace(config, state=str(tmp_path / "new" / "state.safetensors"))
    with pytest.raises(JobCancelled):
        train_gates(model, saved, stop_after(5))
    told: list[int] = []
    gates = train_gates(model, saved, lambda done, _total: told.append(done))
    assert told == [4, 5, 6]
    assert torch.equal(gates, whole)
    told.clear()
    assert torch.equal(train_gates(model, saved, lambda done, _: told.append(done)), whole)
    assert told == [6]


@pytest.mark.parametrize("change", [{"steps": 7}, {"seed": 1}, {"recipe": "paper"}])
def test_another_trainings_state_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    model = loaded(FAMILIES["llama"])
    config = replace(CONFIG, steps=1, state=str(tmp_path / "state"))
    train_gates(model, config, unheard)
    with pytest.raises(InvalidInput, match="another training"):
        train_gates(model, replace(config, **change), unheard)


def test_a_file_that_is_no_state_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a diary")
    with pytest.raises(InvalidInput, match="no saved state"):
        train_gates(
            loaded(FAMILIES["llama"]), replace(CONFIG, state=str(tmp_path / "state")), unheard
        )


def test_what_was_measured_is_json_and_knows_no_places_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "books").mkdir()
    (tmp_path / "books" / "one.txt").write_text("Plain text to read. " * 50)
    config = replace(
        CONFIG, steps=1, haystack=str(tmp_path / "books"), state=str(tmp_path / "state")
    )
    measure = Duo(config).measure(loaded(FAMILIES["llama"]), unheard)
    assert measure.settings["haystack"] == "books"
    assert json.loads(json.dumps(measure.settings)) == measure.settings
    assert str(tmp_path) not in json.dumps(measure.settings)


def test_the_highest_gates_are_retrieval_heads() -> None:
    measure = Measure(((1.0, 0.2), (0.9, 1.0)))
    assert Duo(CONFIG).choose(measure, 0.5) == ((True, False), (False, True))


def test_the_rate_rises_stays_and_falls() -> None:
    rates = [learning_rate(step, 2000, 0.02) for step in range(2000)]
    assert rates[0] == rates[-1] == pytest.approx(0.002)
    assert rates[200] == pytest.approx(0.011)
    assert rates[400] == rates[1000] == rates[1599] == 0.02
    assert rates == rates[::-1]
    assert min(rates) == rates[0]
