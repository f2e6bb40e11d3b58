"""The proof that answers at budget `exact` are those of full attention, and that it can fail."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from engine.attend.clusters import (
    AttendedClusters,
    FullClusterAttention,
    Lookup,
    Selection,
    attend_selected,
)
from engine.attend.question import QuestionState, open_question
from engine.config import PromptConfig
from engine.document.artifact import pack, unpack
from engine.document.budget import EXACT
from engine.document.cache import DocumentCache, LayerCache
from engine.model.attention import forward
from engine.model.loader import LoadedModel
from tests.models import (
    ALIBI,
    FAMILIES,
    FURTHER,
    SETTINGS,
    byte_tokenizer,
    loaded,
    prose,
    random_model,
)
from tests.models import read as read_text

QUESTION = "Who keeps the lamps?"
ANSWER, NUM_STEPS = "Mira does!", 10
TOLERANCE, NOTICEABLE = 1e-4, 1e-2
CLUSTERED = [name for name in FAMILIES if name != "mistral-window"]


@cache
def tiny(family: str) -> LoadedModel:
    return loaded((FAMILIES | FURTHER | ALIBI)[family])


def full_attention(family: str, ids: Tensor) -> Tensor:
    """Logits of transformers' own eager attention, without any cache: after the question and after
    each token of its answer (steps + 1, vocabulary)."""
    with torch.inference_mode():
        model = random_model((FAMILIES | FURTHER | ALIBI)[family])
        logits: Tensor = model(input_ids=ids[None], use_cache=False).logits[0]
    return logits[-NUM_STEPS - 1 :]


def prompt(model: LoadedModel, document: str) -> Tensor:
    """Document, question and answer as full attention sees them."""
    encoded = model.prompt.encode_document(document).ids
    question, answer = model.prompt.encode_question(QUESTION), model.prompt.encode_answer(ANSWER)
    return torch.cat((encoded, question, answer))


@cache
def reference(family: str, document: str) -> Tensor:
    return full_attention(family, prompt(tiny(family), document))


@cache
def read(family: str, document: str, chunk_tokens: int = 100) -> DocumentCache:
    return read_text(tiny(family), document, replace(SETTINGS, chunk_tokens=chunk_tokens))


def stored(document: DocumentCache, model: LoadedModel) -> DocumentCache:
    """The document after a way through its files, in fp32, and through JSON."""
    manifest, files = pack(document, "float32")
    return unpack(json.loads(json.dumps(manifest)), files, device=model.device, dtype=model.dtype)


def worst_error(model: LoadedModel, state: QuestionState, wanted: Tensor, shift: int = 0) -> float:
    """The largest difference of a logit over the question's prefill and all decoding steps."""
    answer = model.prompt.encode_answer(ANSWER)
    passes = (model.prompt.encode_question(QUESTION), *answer.split(1))
    ours = [forward(model.model, ids, state.position + shift, state)[-1] for ids in passes]
    return float((torch.stack(ours) - wanted).abs().max())


def exact_error(family: str, document: str, chunk_tokens: int) -> float:
    model = tiny(family)
    state = open_question(stored(read(family, document, chunk_tokens), model), EXACT)
    return worst_error(model, state, reference(family, document))


@pytest.mark.parametrize("num_chars", [1, 130, 1000])
@pytest.mark.parametrize("family", FAMILIES)
def test_exact_answers_equal_full_attention(family: str, num_chars: int) -> None:
    assert exact_error(family, prose(num_chars), chunk_tokens=100) < TOLERANCE


@pytest.mark.parametrize("chunk_tokens", [1, 7, 4096])
@pytest.mark.parametrize("family", ["llama", "mistral-window", "gemma2", "phi3"])
def test_the_size_of_prefill_chunks_does_not_matter(family: str, chunk_tokens: int) -> None:
    assert exact_error(family, prose(130), chunk_tokens) < TOLERANCE


@pytest.mark.parametrize("chunk_tokens", [333, 4096])
@pytest.mark.parametrize("family", ["llama", "mistral-window", "gemma2"])
def test_long_documents_may_be_read_in_large_chunks(family: str, chunk_tokens: int) -> None:
    assert exact_error(family, prose(1000), chunk_tokens) < TOLERANCE


@pytest.mark.parametrize("family", [*FURTHER, *ALIBI])
def test_further_families_are_exact_too(family: str) -> None:
    assert exact_error(family, prose(200), chunk_tokens=60) < TOLERANCE


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_a_prompt_of_a_single_token_is_exact(family: str) -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = None
    model = loaded(FAMILIES[family], tokenizer, prompt=PromptConfig(format="plain"))
    document = stored(read_text(model, "x"), model)
    assert document.num_tokens == 1
    wanted = full_attention(family, prompt(model, "x"))
    assert worst_error(model, open_question(document, EXACT), wanted) < TOLERANCE


def test_the_proof_covers_what_it_claims() -> None:
    groups = set()
    for model in map(tiny, FAMILIES):
        groups |= {layer.num_heads // layer.num_kv_heads for layer in model.spec.layers}
        for name, weight in model.model.named_parameters():
            if weight.dim() > 1:
                assert float(weight.std()) == pytest.approx(0.15, rel=0.05), name
    assert groups == {1, 2, 4}
    assert len(tiny("llama").prompt.encode_document(prose(1000)).ids) == 1001
    assert len(tiny("llama").prompt.encode_answer(ANSWER)) == NUM_STEPS


@pytest.mark.parametrize("family", CLUSTERED)
def test_documents_of_the_proof_are_clustered(family: str) -> None:
    document = read(family, prose(1000))
    clustered = [layer for layer in document.layers if layer.window is None]
    assert clustered
    for layer in clustered:
        assert layer.level2.centroids.shape[1] > layer.level1.centroids.shape[1] > 1
        assert not torch.equal(layer.positions[0].sort().values, layer.positions[0])


class AllButOneCluster(FullClusterAttention):
    """Attends to all clustered tokens but those of one cluster in one head of one layer."""

    def __init__(self, document: DocumentCache) -> None:
        self._layer = next(layer for layer in document.layers if layer.has_clusters)

    def attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        if layer is not self._layer:
            return super().attend(lookup, layer)
        clustered = torch.arange(layer.num_tokens - layer.num_anchors)
        dropped = int(layer.level2.sizes[0].argmax())
        start, end = layer.level2.offsets[0, dropped : dropped + 2].tolist()
        kept = torch.cat((clustered[:start], clustered[end:]))
        selection = Selection((kept, *[clustered] * (len(layer.keys) - 1)), 0)
        return AttendedClusters(attend_selected(lookup, layer, selection), selection)


def swapped(family: str) -> tuple[QuestionState, int]:
    return open_question(read(family, prose(1000, seed=1)), EXACT), 0


def shifted(family: str) -> tuple[QuestionState, int]:
    return open_question(read(family, prose(1000)), EXACT), 50


def dropped(family: str) -> tuple[QuestionState, int]:
    document = read(family, prose(1000))
    reach = AllButOneCluster(document)
    return QuestionState(document, reach, reach), 0


@pytest.mark.parametrize(
    ("family", "fault"),
    [(family, fault) for family in FAMILIES for fault in (swapped, shifted)]
    + [(family, dropped) for family in CLUSTERED],
)
def test_a_wrong_cache_is_noticed(
    family: str, fault: Callable[[str], tuple[QuestionState, int]]
) -> None:
    state, shift = fault(family)
    assert worst_error(tiny(family), state, reference(family, prose(1000)), shift) > NOTICEABLE
