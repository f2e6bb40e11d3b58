"""Models of random weights have the sizes of those that they are named for."""

import pytest
import torch

from bench.random_llama import SHAPES, random_llama


@pytest.mark.parametrize(
    ("name", "count"), [("llama3_8b", 8_030_261_248), ("llama2_7b", 6_738_415_616)]
)
def test_shapes_have_as_many_weights_as_the_models(name: str, count: int) -> None:
    model = random_llama(SHAPES[name], 4096, "meta")
    assert sum(weight.numel() for weight in model.parameters()) == count
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    assert torch.get_default_dtype() == torch.float32
