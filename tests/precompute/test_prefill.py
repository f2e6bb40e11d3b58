"""Reading a document in chunks."""

import pytest
import torch
from torch.testing import assert_close

from common.errors import LeaseLost
from engine.model import LoadedModel
from precompute.prefill import prefill
from tests.models import FAMILIES, loaded, prose, random_model, unheard

FAMILY = ["llama", "mistral-window", "gemma2", "qwen3"]


def ids_of(model: LoadedModel, num_chars: int = 300) -> torch.Tensor:
    return model.prompt.encode_document(prose(num_chars)).ids


@pytest.mark.parametrize("family", FAMILY)
def test_it_leaves_the_keys_and_values_of_transformers_own_cache(family: str) -> None:
    model = loaded(FAMILIES[family])
    ids = ids_of(model, 80)  # shorter than the windows: transformers' cache drops what leaves them
    with torch.inference_mode():
        wanted = random_model(FAMILIES[family])(ids[None], use_cache=True).past_key_values
    for layer, cached in zip(prefill(model, ids, 32, unheard), wanted.layers, strict=True):
        assert_close(layer.keys, cached.keys[0], rtol=1e-4, atol=1e-4)
        assert_close(layer.values, cached.values[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("chunk_tokens", [1, 7, 64, 300])
@pytest.mark.parametrize("family", FAMILY)
def test_chunks_of_any_size_leave_the_same(family: str, chunk_tokens: int) -> None:
    model = loaded(FAMILIES[family])
    ids = ids_of(model)
    whole = prefill(model, ids, 4096, unheard)
    for one, other in zip(prefill(model, ids, chunk_tokens, unheard), whole, strict=True):
        assert_close(one.keys, other.keys, rtol=1e-4, atol=1e-4)
        assert_close(one.values, other.values, rtol=1e-4, atol=1e-4)


def test_progress_is_told_after_each_chunk() -> None:
    model, told = loaded(FAMILIES["llama"]), list[int]()
    prefill(model, ids_of(model), 128, told.append)
    assert told == [128, 256, 301]


def test_progress_that_raises_stops_the_work() -> None:
    model, told = loaded(FAMILIES["llama"]), list[int]()

    def lost(done: int) -> None:
        told.append(done)
        if done >= 200:
            raise LeaseLost("Another worker owns this job.")

    with pytest.raises(LeaseLost):
        prefill(model, ids_of(model), 100, lost)
    assert told == [100, 200]
