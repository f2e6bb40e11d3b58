"""Infinite and undefined numbers never get further than where they arise."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from common.errors import NonFiniteNumbers, UnsupportedModel
from engine.attend.clusters import Lookup
from engine.config import LookupConfig, ModelConfig
from engine.decode.sampling import Sampling
from engine.document.artifact import pack
from engine.document.cache import DocumentCache
from engine.model.finite import all_finite
from engine.model.loader import LoadedModel, assemble, load_model
from precompute.score_histogram import ScoreHistogram
from tests.models import (
    ALIBI,
    FAMILIES,
    HALF,
    SETTINGS,
    answer,
    byte_tokenizer,
    loaded,
    prose,
    random_model,
    read,
)

BAD = [float("inf"), float("-inf"), float("nan")]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("family", ["llama", "gemma2", "bloom"])
def test_bad_weights_are_refused_at_load_with_their_layer(family: str, bad: float) -> None:
    model = random_model((FAMILIES | ALIBI)[family])
    name, weight = next(
        (name, weight) for name, weight in model.named_parameters() if ".1.mlp" in name
    )
    weight.view(-1)[7] = bad
    with pytest.raises(UnsupportedModel, match=r"\.1\.mlp.*infinite or undefined") as caught:
        assemble(model, byte_tokenizer(), name="bad", fingerprint="bad")
    assert name in caught.value.message


def test_weights_beyond_the_range_of_a_dtype_are_refused(tmp_path: Path) -> None:
    model = random_model(FAMILIES["llama"])
    model.model.layers[1].self_attn.k_proj.weight[0, 0] = 1e6
    model.save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    assert load_model(ModelConfig(str(tmp_path), device="cpu")).dtype == torch.float32
    with pytest.raises(UnsupportedModel, match=r"layers\.1\.self_attn\.k_proj.* float16"):
        load_model(ModelConfig(str(tmp_path), device="cpu", dtype="float16"))


def broken(layer: int, *, bad: float = float("nan"), plan: Any = None) -> LoadedModel:
    """A loaded model whose values of one layer turn bad at every token of the letter x."""
    model = loaded(FAMILIES["llama"], plan=plan)
    letter = int(model.prompt.encode_answer("x")[0])
    body: Any = model.model
    body = body.model
    seen: list[torch.Tensor] = []
    body.embed_tokens.register_forward_pre_hook(lambda _, given: seen.append(given[0]))

    def spoil(_: Any, __: Any, out: torch.Tensor) -> torch.Tensor:
        return out.masked_fill((seen[-1] == letter)[..., None], bad)

    body.layers[layer].self_attn.v_proj.register_forward_hook(spoil)
    return model


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("plan", [None, HALF])
@pytest.mark.parametrize("layer", [0, 1])
def test_a_chunk_with_bad_numbers_ends_reading_and_names_the_layer(
    layer: int, plan: Any, bad: float
) -> None:
    model, told = broken(layer, bad=bad, plan=plan), list[int]()
    text = prose(250).replace("x", "") + "x" + prose(250)
    with pytest.raises(NonFiniteNumbers, match=f"layer {layer} in tokens 200 to 299"):
        read(model, text, SETTINGS, lambda _phase, done, _total: told.append(done))
    assert max(told) == 200, "the chunks before it were read"


def test_bad_logits_alone_end_reading_too() -> None:
    model = loaded(FAMILIES["llama"])
    body: Any = model.model
    body.lm_head.register_forward_hook(lambda *_: torch.full((1, 1, 260), float("nan")))
    with pytest.raises(NonFiniteNumbers, match="the logits in tokens 0 to"):
        read(model, prose(100))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("budget", [0.5, 1.0])
def test_a_question_with_bad_numbers_ends_in_an_error(budget: float, temperature: float) -> None:
    model = broken(1)
    document = read(model, prose(600).replace("x", "k"))
    sampling = Sampling(max_tokens=4, temperature=temperature, seed=0)
    list(answer(model, document, "Why?", budget=budget, sampling=sampling))
    with pytest.raises(NonFiniteNumbers, match="logits"):
        list(answer(model, document, "Why x?", budget=budget, sampling=sampling))


@pytest.mark.parametrize("levels", [1, 2])
def test_undefined_keys_never_index_out_of_the_histogram(levels: int) -> None:
    model = loaded(FAMILIES["llama"])
    document = read(model, prose(600), replace(SETTINGS, lookup=LookupConfig(levels=levels)))
    layer = document.layers[0]
    poisoned = replace(
        layer,
        level2=replace(layer.level2, centroids=torch.full_like(layer.level2.centroids, torch.nan)),
        level1=replace(layer.level1, centroids=torch.full_like(layer.level1.centroids, torch.nan)),
    )
    rows = torch.zeros(2, 2, 16)
    lookup = Lookup(rows, 2, torch.zeros(2, 2), 0.25, None)
    histogram = ScoreHistogram(document.lookup, document, apart=False)
    histogram.count(lookup, poisoned)
    assert histogram.curve().shares


def files(document: DocumentCache, dtype: str) -> Iterator[str]:
    manifest, parts = pack(document, dtype)
    json.dumps(manifest)
    for name, _ in parts:
        yield name


def test_keys_beyond_the_range_of_the_stored_dtype_are_not_stored() -> None:
    document = read(loaded(FAMILIES["llama"]), prose(300))
    keys = document.layers[1].keys.clone()
    keys[0, 5, 3] = 1e6
    large = replace(document, layers=(document.layers[0], replace(document.layers[1], keys=keys)))
    assert len(list(files(large, "bfloat16"))) == 3
    with pytest.raises(NonFiniteNumbers, match="keys of layer 1 do not fit into float16"):
        list(files(large, "float16"))


def test_float8_numbers_are_looked_at_too() -> None:
    eights = torch.ones(3, dtype=torch.float8_e4m3fn)
    assert bool(all_finite(eights))
    eights.view(torch.uint8)[1] = 0x7F
    assert not bool(all_finite(eights))
