"""Reading a document in chunks."""

import pytest
import torch
from torch.testing import assert_close

from common.errors import LeaseLost
from engine.model.head_plan import HeadPlan
from engine.model.loader import LoadedModel
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


def test_it_asks_within_a_chunk_whether_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    model = loaded(FAMILIES["llama"])
    ids = ids_of(model)
    whole = prefill(model, ids, 4096, unheard)
    heads = model.spec.layers[0].num_heads
    monkeypatch.setattr("precompute.prefill.MOST_CPU_SCORES", 16 * heads * len(ids))
    asked: list[int] = []
    blocks = prefill(model, ids, 4096, unheard, check=lambda: asked.append(1))
    num_blocks = -(-len(ids) // 16)
    assert len(asked) == model.spec.num_layers * (2 + num_blocks)
    for one, other in zip(blocks, whole, strict=True):
        assert_close(one.keys, other.keys, rtol=1e-4, atol=1e-4)
        assert_close(one.values, other.values, rtol=1e-4, atol=1e-4)


def test_a_chunk_can_be_stopped_in_the_middle() -> None:
    model, asked = loaded(FAMILIES["llama"]), list[int]()

    def lost() -> None:
        asked.append(1)
        if len(asked) == model.spec.num_layers + 2:
            raise LeaseLost("Another worker owns this job.")

    def never(_: int) -> None:
        raise AssertionError("The chunk was read to its end.")

    with pytest.raises(LeaseLost):
        prefill(model, ids_of(model), 4096, never, check=lost)


def test_chunks_on_a_cpu_are_not_longer_than_somebody_would_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("precompute.prefill.MOST_CPU_TOKENS", 100)
    model, told = loaded(FAMILIES["llama"]), list[int]()
    prefill(model, ids_of(model), 8192, told.append)
    assert told == [100, 200, 300, 301]


def streaming_model() -> LoadedModel:
    plan = HeadPlan("file", ((False, True), (False, False)), num_sinks=4, window=24)
    return loaded(FAMILIES["llama"], plan=plan)


@pytest.mark.parametrize("chunk_tokens", [1, 5, 24, 28, 100])
@pytest.mark.parametrize("num_chars", [3, 27, 28, 300])
def test_streaming_heads_are_left_alike_by_chunks_of_any_size(
    num_chars: int, chunk_tokens: int
) -> None:
    model = streaming_model()
    ids = ids_of(model, num_chars)
    whole = prefill(model, ids, 4096, unheard)
    for one, other in zip(prefill(model, ids, chunk_tokens, unheard), whole, strict=True):
        assert one.streaming is not None
        assert other.streaming is not None
        assert one.streaming.num_dropped == other.streaming.num_dropped
        assert_close(one.keys, other.keys, rtol=1e-4, atol=1e-4)
        assert_close(one.streaming.keys, other.streaming.keys, rtol=1e-4, atol=1e-4)
        assert_close(one.streaming.values, other.streaming.values, rtol=1e-4, atol=1e-4)


def test_streaming_heads_keep_sinks_window_and_the_mean_of_the_rest() -> None:
    model = streaming_model()
    first = prefill(model, ids_of(model, 200), 64, unheard)[0]
    assert first.keys.shape == first.values.shape == (1, 201, 16)
    # Keys and values of the first layer depend on no attention: one by one they are known.
    everything = prefill(loaded(FAMILIES["llama"]), ids_of(model, 200), 64, unheard)[0]
    assert first.streaming is not None
    assert first.streaming.num_dropped == 201 - 4 - 24
    for kept, tokens in (
        (first.streaming.keys[0], everything.keys[0]),  # head 0, which streams
        (first.streaming.values[0], everything.values[0]),
    ):
        parts = (tokens[:4], tokens[-24:], tokens[4:-24].mean(0, keepdim=True))
        assert_close(kept, torch.cat(parts), rtol=1e-4, atol=1e-4)
    assert_close(first.keys[0], everything.keys[1], rtol=1e-4, atol=1e-4)


def test_windows_do_not_hold_on_to_the_whole_document() -> None:
    windowed = loaded(FAMILIES["mistral-window"])
    for layer in prefill(windowed, ids_of(windowed), 250, unheard):
        assert layer.keys.shape[1] == 96
        assert layer.keys.untyped_storage().nbytes() == layer.keys.nbytes
    model = streaming_model()
    for layer in prefill(model, ids_of(model), 250, unheard):
        assert layer.streaming is not None
        kept = layer.streaming.keys
        assert kept.untyped_storage().nbytes() == kept.nbytes == 4 * 16 * len(kept) * 29
