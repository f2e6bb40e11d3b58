"""The proof that dual caches at budget `exact` are full attention under the plan's masks."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from engine.attend.question import open_question
from engine.document.artifact import pack, unpack
from engine.document.budget import EXACT
from engine.document.cache import DocumentCache, LayerCache, StreamingCache
from engine.model.attention import forward
from engine.model.head_plan import HeadPlan
from engine.model.loader import LoadedModel
from tests.engine.masked import masked_logits
from tests.models import FAMILIES, FURTHER, SETTINGS, loaded, prose, read

QUESTION, ANSWER = "Who keeps the lamps?", "Mira does!"
NUM_SINKS, WINDOW = 4, 24
TOLERANCE, NOTICEABLE = 1e-4, 1e-2
# Per layer what becomes of its KV heads, however many; the first head streams wherever it can, so
# that weights must be reordered.
PLANS: dict[str, tuple[str, str]] = {
    "mixed": ("last", "last"),
    "one layer streams": ("none", "all"),
    "one layer reads": ("all", "last"),
    "all stream": ("none", "none"),
}
SPLIT = ["llama", "llama-mha", "llama-gqa4", "mistral", "qwen2", "qwen3", "phi3", "gemma2"]


AT_RUN_TIME = ["gpt2", "olmo2", "olmo3", "phi", "gpt-oss"]  # whose weights stay in their order
EVERY = {**FAMILIES, **FURTHER}


def make_plan(family: str, name: str, *, compensation: bool = True) -> HeadPlan:
    config = EVERY[family]
    heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
    kinds = {"all": [True], "none": [False], "last": [False, True]}
    retrieval = tuple(
        tuple((kinds[kind] * heads)[-heads:]) if kind == "last" else tuple(kinds[kind] * heads)
        for kind in PLANS[name]
    )
    return HeadPlan("file", retrieval, NUM_SINKS, WINDOW, compensation)


@cache
def tiny(family: str, name: str, compensation: bool = True) -> LoadedModel:
    return loaded(EVERY[family], plan=make_plan(family, name, compensation=compensation))


@cache
def document_of(
    family: str, name: str, num_chars: int, chunk_tokens: int = 100, compensation: bool = True
) -> DocumentCache:
    """After a way through its files and through JSON."""
    model = tiny(family, name, compensation)
    document = read(model, prose(num_chars), replace(SETTINGS, chunk_tokens=chunk_tokens))
    manifest, files = pack(document, "float32")
    return unpack(json.loads(json.dumps(manifest)), files, device=model.device, dtype=model.dtype)


def passes(model: LoadedModel) -> list[Tensor]:
    """The question, and its answer token by token."""
    answer = model.prompt.encode_answer(ANSWER)
    return [model.prompt.encode_question(QUESTION), *answer.split(1)]


@cache
def wanted(family: str, name: str, num_chars: int, compensation: bool = True) -> Tensor:
    model = tiny(family, name, compensation)
    document = model.prompt.encode_document(prose(num_chars)).ids
    asked = passes(model)
    logits = masked_logits(EVERY[family], model.plan, torch.cat((document, *asked)), len(document))
    return logits[-len(asked) :]


def worst_error(model: LoadedModel, document: DocumentCache, reference: Tensor) -> float:
    state = open_question(document, EXACT)
    ours = [forward(model.model, ids, state.position, state)[-1] for ids in passes(model)]
    return float((torch.stack(ours) - reference).abs().max())


@pytest.mark.parametrize("num_chars", [1, 130, 1000])
@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("family", ["llama", "llama-mha", "llama-gqa4"])
def test_exact_answers_equal_masked_attention(family: str, name: str, num_chars: int) -> None:
    document = document_of(family, name, num_chars)
    assert worst_error(tiny(family, name), document, wanted(family, name, num_chars)) < TOLERANCE


@pytest.mark.parametrize("family", [*SPLIT, *AT_RUN_TIME])
def test_every_known_kind_of_projection_can_be_split(family: str) -> None:
    document = document_of(family, "mixed", 300)
    assert worst_error(tiny(family, "mixed"), document, wanted(family, "mixed", 300)) < TOLERANCE


@pytest.mark.parametrize("chunk_tokens", [1, 7, 24, 28, 333, 4096])
def test_the_size_of_prefill_chunks_does_not_matter(chunk_tokens: int) -> None:
    document = document_of("llama", "mixed", 300, chunk_tokens)
    assert worst_error(tiny("llama", "mixed"), document, wanted("llama", "mixed", 300)) < TOLERANCE


@pytest.mark.parametrize("num_chars", [26, 27, 28, 29, 300])
def test_it_holds_without_a_compensation_token_and_where_tokens_begin_to_drop(
    num_chars: int,
) -> None:
    for compensation in (True, False):
        arguments = ("llama", "mixed", num_chars)
        document = document_of(*arguments, compensation=compensation)
        model = tiny("llama", "mixed", compensation)
        assert worst_error(model, document, wanted(*arguments, compensation)) < TOLERANCE


@pytest.mark.parametrize(("num_chars", "window"), [(60, 24), (1000, 201)])
def test_a_window_that_grows_with_the_document_is_resolved_when_it_is_read(
    num_chars: int, window: int
) -> None:
    growing = replace(make_plan("llama", "mixed"), window_share=0.2)
    model = loaded(FAMILIES["llama"], plan=growing)
    document = read(model, prose(num_chars))
    manifest, files = pack(document, "float32")
    assert manifest["choices"]["window"] == window
    stored = unpack(json.loads(json.dumps(manifest)), files, device=model.device, dtype=model.dtype)
    assert stored.choices == document.choices
    for layer in stored.layers:
        assert layer.streaming is not None
        assert layer.streaming.num_kept == NUM_SINKS + window
    constant = replace(growing, window=window, window_share=0.0)
    asked, ids = passes(model), model.prompt.encode_document(prose(num_chars)).ids
    logits = masked_logits(FAMILIES["llama"], constant, torch.cat((ids, *asked)), len(ids))
    assert worst_error(model, stored, logits[-len(asked) :]) < TOLERANCE


def test_the_proof_covers_what_it_claims() -> None:
    document = document_of("llama", "mixed", 1000)
    for layer in document.layers:
        assert layer.streaming is not None
        assert layer.has_clusters
        assert layer.num_retrieval == 1
        assert layer.streaming.num_dropped == 1001 - NUM_SINKS - WINDOW
        assert layer.streaming.keys.shape == (1, NUM_SINKS + WINDOW + 1, 16)
    groups = {
        layer.num_heads // layer.num_kv_heads
        for family in SPLIT
        for layer in tiny(family, "mixed").spec.layers
    }
    assert groups == {1, 2, 4}


Fault = Callable[[DocumentCache], DocumentCache]


def streams_otherwise(change: Callable[[StreamingCache], StreamingCache]) -> Fault:
    def fault(document: DocumentCache) -> DocumentCache:
        def changed(layer: LayerCache) -> LayerCache:
            assert layer.streaming is not None
            return replace(layer, streaming=change(layer.streaming))

        return replace(document, layers=tuple(map(changed, document.layers)))

    return fault


def without(first: int, last: int) -> Callable[[StreamingCache], StreamingCache]:
    def change(cache: StreamingCache) -> StreamingCache:
        kept = [index for index in range(cache.keys.shape[1]) if not first <= index < last]
        return replace(cache, keys=cache.keys[:, kept], values=cache.values[:, kept])

    return change


FAULTS: dict[str, Fault] = {
    "the weight is left out": streams_otherwise(lambda cache: replace(cache, num_dropped=1)),
    "half of the weight": streams_otherwise(
        lambda cache: replace(cache, num_dropped=cache.num_dropped // 2)
    ),
    "no compensation token": streams_otherwise(
        lambda cache: StreamingCache(cache.keys[:, :-1], cache.values[:, :-1], 0)
    ),
    "a mean key alone": streams_otherwise(
        lambda cache: replace(
            cache, values=torch.cat((cache.values[:, :-1], 0 * cache.values[:, -1:]), dim=1)
        )
    ),
    "no sinks": streams_otherwise(without(0, NUM_SINKS)),
    "half a window": streams_otherwise(without(NUM_SINKS, NUM_SINKS + WINDOW // 2)),
    "layers swapped": lambda document: replace(document, layers=document.layers[::-1]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_cache_is_noticed(fault: str) -> None:
    document = FAULTS[fault](document_of("llama", "mixed", 1000))
    error = worst_error(tiny("llama", "mixed"), document, wanted("llama", "mixed", 1000))
    assert error > NOTICEABLE


def test_another_plan_is_noticed() -> None:
    document = document_of("llama", "mixed", 300)
    assert (
        worst_error(loaded(FAMILIES["llama"]), document, wanted("llama", "mixed", 300)) > NOTICEABLE
    )
