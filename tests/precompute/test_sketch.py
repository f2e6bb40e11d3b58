"""Sketches take as many bytes as the documents that they stand for."""

from dataclasses import replace

import pytest
import torch

from precompute.sketch import sketch_document
from tests.models import ALIBI, FAMILIES, HALF, SETTINGS, loaded, prose, read

CASES = {
    "llama": None, "gemma2": None, "mistral-window": None, "llama-mha": None, "bloom": None,
    "llama with a plan": HALF,
    "llama with a window that grows": replace(HALF, window_share=0.3),
}  # fmt: skip


@pytest.mark.parametrize("num_chars", [5, 60, 400])
@pytest.mark.parametrize("case", CASES)
def test_a_sketch_has_the_bytes_of_the_document(case: str, num_chars: int) -> None:
    family = case.partition(" ")[0]
    model = loaded((FAMILIES | ALIBI)[family], plan=CASES[case])
    document = read(model, prose(num_chars))
    sketch = sketch_document(model.spec, model.plan, SETTINGS, document.num_tokens, torch.float32)
    assert sketch.num_bytes == document.num_bytes
    assert sketch.kv_bytes == document.kv_bytes
    assert all(tensor.is_meta for layer in sketch.layers for tensor in layer.tensors())
