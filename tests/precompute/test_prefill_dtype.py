"""Reading by products in bfloat16 within a model in float32."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.attend.question import open_question
from engine.document.budget import EXACT
from engine.model.attention import forward
from engine.model.loader import LoadedModel
from precompute import prefill_dtype as module
from precompute.config import PrecomputeConfig
from precompute.fingerprint import artifact_fingerprint
from precompute.prefill import PrefilledLayer, prefill
from precompute.prefill_dtype import matmul_in, prefill_dtype
from tests.models import ALIBI, FAMILIES, HALF, SETTINGS, loaded, prose, read, unheard

BFLOAT16, FLOAT32 = torch.bfloat16, torch.float32


def ids_of(model: LoadedModel) -> torch.Tensor:
    return model.prompt.encode_document(prose(300)).ids


def kept(layer: PrefilledLayer) -> list[torch.Tensor]:
    """All that a layer keeps."""
    found = [layer.keys, layer.values]
    if layer.streaming is not None:
        found += [layer.streaming.keys, layer.streaming.values]
    return found + [part for scoped in layer.scoped for part in (scoped.keys, scoped.values)]


def check_alike(model: LoadedModel) -> None:
    """Read in both ways: the same is kept, in the model's dtype, up to the rounding of products."""
    ids = ids_of(model)
    rounded, plain = (prefill(model, ids, 100, unheard, dtype=dtype) for dtype in (BFLOAT16, None))
    for one, other in zip(rounded, plain, strict=True):
        for part, wanted in zip(kept(one), kept(other), strict=True):
            assert part.dtype == FLOAT32
            assert part.shape == wanted.shape
            if part.numel() > 0:
                assert 0 < float((part - wanted).norm() / wanted.norm()) < 0.05


@pytest.mark.parametrize("family", sorted(FAMILIES | ALIBI))
def test_every_family_is_read_alike_up_to_the_rounding_of_products(family: str) -> None:
    check_alike(loaded((FAMILIES | ALIBI)[family]))


def test_streaming_heads_are_read_alike() -> None:
    check_alike(loaded(FAMILIES["llama"], plan=HALF))


def test_products_are_rounded_on_the_thread_that_reads_alone() -> None:
    model = loaded(FAMILIES["llama"])
    with matmul_in(BFLOAT16, model):
        assert torch.is_autocast_enabled("cpu")
    assert not torch.is_autocast_enabled("cpu")
    with matmul_in(model.dtype, model):
        assert not torch.is_autocast_enabled("cpu")


def test_a_document_that_was_read_so_is_answered_in_the_models_dtype() -> None:
    model = loaded(FAMILIES["llama"])
    document = read(model, prose(400), replace(SETTINGS, prefill_dtype="bfloat16"))
    assert document.layers[0].keys.dtype == FLOAT32
    state = open_question(document, EXACT)
    ids = model.prompt.encode_question("What is said?")
    assert forward(model.model, ids, state.position, state).isfinite().all()


@pytest.mark.parametrize(
    ("has_products", "settings", "wanted"),
    [
        (True, {}, BFLOAT16),
        (False, {}, FLOAT32),
        (True, {"prefill_dtype": "model"}, FLOAT32),
        (False, {"prefill_dtype": "bfloat16"}, BFLOAT16),
        (True, {"dtype": "float32"}, FLOAT32),  # what is stored is not to be rounded
    ],
)
def test_auto_takes_what_is_quicker_where_storing_rounds_as_much(
    monkeypatch: pytest.MonkeyPatch, has_products: bool, settings: dict[str, Any], wanted: Any
) -> None:
    monkeypatch.setattr(module, "has_bfloat16_matmul", lambda: has_products)
    assert prefill_dtype(loaded(FAMILIES["llama"]), PrecomputeConfig(**settings)) == wanted


def test_auto_leaves_a_model_in_another_dtype_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "has_bfloat16_matmul", lambda: True)
    model = replace(loaded(FAMILIES["llama"]), dtype=torch.float16)
    assert prefill_dtype(model, PrecomputeConfig()) == torch.float16


def test_auto_leaves_quantised_weights_to_their_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "has_bfloat16_matmul", lambda: True)
    model = replace(loaded(FAMILIES["llama"]), quantisation="gptq")
    assert prefill_dtype(model, PrecomputeConfig()) == FLOAT32


@pytest.mark.parametrize("family", sorted(FAMILIES | ALIBI))
def test_auto_knows_every_family(monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    monkeypatch.setattr(module, "has_bfloat16_matmul", lambda: True)
    assert prefill_dtype(loaded((FAMILIES | ALIBI)[family]), PrecomputeConfig()) == BFLOAT16


def test_auto_is_one_artifact_whatever_it_means_here() -> None:
    model = loaded(FAMILIES["llama"])
    found = {
        name: artifact_fingerprint(model, replace(SETTINGS, prefill_dtype=name))
        for name in ("auto", "model", "bfloat16")
    }
    assert len(set(found.values())) == 3
