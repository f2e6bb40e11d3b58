"""Documents read by models with linear biases: what heads keep, and what that costs."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from common.errors import HeadPlanRejected
from engine.attend.evidence import AttentionMass
from engine.attend.question import open_question
from engine.config import SCOPE_EPSILON
from engine.decode.answer import Answer
from engine.decode.sampling import Sampling
from engine.document.budget import EXACT
from engine.document.cache import DocumentCache
from engine.model.alibi import attention_scope
from engine.model.head_plan import HeadPlan, plan_all
from engine.model.loader import LoadedModel, assemble
from tests.engine.test_exactness import TOLERANCE, prompt, stored, worst_error
from tests.models import ALIBI, SETTINGS, answer, byte_tokenizer, prose, random_model, read

STD = 0.03  # weights so small that scopes are shorter than the document
TEXT = prose(700)
WINDOWED = ["bloom", "mpt"]


@cache
def tiny(family: str) -> LoadedModel:
    model = random_model(ALIBI[family], std=STD)
    return assemble(model, byte_tokenizer(), name="tiny", fingerprint="tiny")


@cache
def cached(family: str, epsilon: float, chunk_tokens: int = 100) -> DocumentCache:
    settings = replace(SETTINGS, scope_epsilon=epsilon, chunk_tokens=chunk_tokens)
    model = tiny(family)
    return stored(read(model, TEXT, settings), model)


@cache
def reference(family: str) -> Tensor:
    with torch.inference_mode():
        model = random_model(ALIBI[family], std=STD)
        logits: Tensor = model(input_ids=prompt(tiny(family), TEXT)[None], use_cache=False).logits[
            0
        ]
    return logits[-11:]


def lengths(document: DocumentCache) -> list[list[int]]:
    """Tokens kept, per layer and head."""
    return [
        [tokens for _, tokens in sorted(
            (head, part.keys.shape[1]) for part in layer.scoped for head in part.heads
        )]
        for layer in document.layers
    ]  # fmt: skip


@pytest.mark.parametrize("chunk_tokens", [7, 100, 4096])
@pytest.mark.parametrize("family", WINDOWED)
def test_all_keys_are_exact(family: str, chunk_tokens: int) -> None:
    document = cached(family, 1e-90, chunk_tokens)
    assert lengths(document) == [[document.num_tokens] * 4] * 2, "every scope covers it"
    state = open_question(document, EXACT)
    assert worst_error(tiny(family), state, reference(family)) < TOLERANCE


@pytest.mark.parametrize("epsilon", [1e-1, 1e-2, 1e-3])
@pytest.mark.parametrize("family", WINDOWED)
def test_what_is_dropped_costs_no_more_than_epsilon(family: str, epsilon: float) -> None:
    document = cached(family, epsilon)
    assert min(map(min, lengths(document))) < document.num_tokens
    state = open_question(document, EXACT)
    assert worst_error(tiny(family), state, reference(family)) < epsilon


def test_dropping_more_would_be_noticed() -> None:
    layers = tuple(
        replace(layer, scoped=tuple(
            replace(part, keys=part.keys[:, -5:], values=part.values[:, -5:])
            for part in layer.scoped
        ))
        for layer in cached("mpt", SCOPE_EPSILON).layers
    )  # fmt: skip
    document = replace(cached("mpt", SCOPE_EPSILON), layers=layers)
    state = open_question(document, EXACT)
    assert worst_error(tiny("mpt"), state, reference("mpt")) > SCOPE_EPSILON


@pytest.mark.parametrize("family", ALIBI)
def test_every_head_keeps_its_scope_and_no_more(family: str) -> None:
    model, document = tiny(family), cached(family, SCOPE_EPSILON)
    for layer, kept in zip(model.spec.layers, lengths(document), strict=True):
        assert layer.alibi is not None
        scopes = attention_scope(layer.alibi.spreads, layer.alibi.slopes)
        assert kept == scopes.clamp(max=document.num_tokens).tolist()
    for layer_cache in document.layers:
        assert not layer_cache.has_clusters
        assert layer_cache.num_retrieval == 0


@pytest.mark.parametrize("family", WINDOWED)
def test_the_size_of_chunks_does_not_matter(family: str) -> None:
    for one, other in zip(
        cached(family, 0.1, 9).layers, cached(family, 0.1, 4096).layers, strict=True
    ):
        for part, same in zip(one.scoped, other.scoped, strict=True):
            assert part.heads == same.heads
            torch.testing.assert_close(part.keys, same.keys, rtol=0.0, atol=1e-5)
            torch.testing.assert_close(part.values, same.values, rtol=0.0, atol=1e-5)


def test_an_answer_counts_what_it_reads_and_shows_where_it_looked() -> None:
    model, document = tiny("bloom"), cached("bloom", SCOPE_EPSILON)
    *_, last = answer(
        model, document, "Who?", budget=0.05, sampling=Sampling(max_tokens=3)
    )  # fmt: skip
    assert isinstance(last, Answer)
    heads = sum(len(layer) for layer in lengths(document))
    share = sum(map(sum, lengths(document))) / (heads * document.num_tokens)
    assert 0.1 < share < 0.9
    assert last.budget.loaded == pytest.approx(share, abs=1e-4)
    assert last.budget.applied == pytest.approx(share)
    assert last.usage.kv_bytes_resident == document.kv_bytes
    for passage in last.evidence:
        assert TEXT[passage.start_char : passage.end_char].strip() == passage.quote


def test_evidence_is_the_weight_of_heads_that_see_the_whole_document() -> None:
    model, document = tiny("bloom"), cached("bloom", 1e-90)
    mass = AttentionMass(replace(document, num_sinks=0), model.device)
    state = open_question(document, EXACT, mass)
    wanted = torch.zeros(document.num_tokens)
    with torch.inference_mode():
        ids = prompt(model, TEXT)[: document.num_tokens + 1]
        plain = random_model(ALIBI["bloom"], std=STD)
        for weights in plain(input_ids=ids[None], output_attentions=True).attentions:
            wanted += weights[0, :, -1, :-1].square().sum(dim=0)
        model.model(input_ids=ids[-1:][None], lectern=state, logits_to_keep=1)
    torch.testing.assert_close(mass.on_tokens(), wanted, rtol=1e-3, atol=1e-6)


def test_a_head_plan_has_no_say() -> None:
    plan = plan_all(tiny("bloom").spec)
    split = HeadPlan("file", tuple((True, False, True, True) for _ in plan.retrieval))
    with pytest.raises(HeadPlanRejected, match="linear biases"):
        assemble(
            random_model(ALIBI["bloom"]), byte_tokenizer(), name="t", fingerprint="t", plan=split
        )
