"""What the prefill benchmark asks of a layer."""

import pytest

from bench.kernels.layer import Shape, draw_layer
from bench.kernels.prefill import ask


@pytest.mark.parametrize("num_heads", [4, 8])  # groups of one query head, and of two
def test_a_question_lies_in_memory_as_the_operations_demand(num_heads: int) -> None:
    shape = Shape(300, num_heads=num_heads, kv_heads=4, head_dim=16, num_anchors=13)
    asked = ask(shape, draw_layer(shape, 7, "cpu"), tokens=5, seed=8)
    inputs = asked.select_inputs()
    inputs.validate()
    selected = asked.choose()
    asked.attend_inputs(selected).validate()
    assert selected.counts.tolist() == [13 + 300] * 4  # it wants everything
