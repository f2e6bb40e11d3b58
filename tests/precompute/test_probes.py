"""Probe questions: about any text, of a bounded length, within the model's context."""

import base64
import json
import random
from dataclasses import replace

import pytest
import torch
from transformers import GPT2Config

from engine.document.cache import DocumentCache
from engine.model.loader import LoadedModel
from precompute.probes import ANSWER_TOKENS, PASSAGE_TOKENS, Probe, ProbeMaker
from tests.models import FAMILIES, SETTINGS, VOCABULARY, loaded, prose, read

ENGLISH = prose(3000)
WITH_LEARNED_POSITIONS = GPT2Config(
    vocab_size=VOCABULARY, n_embd=64, n_layer=2, n_head=4, n_positions=512,
    bos_token_id=0, eos_token_id=3,
)  # fmt: skip
WORDING_TOKENS = 60  # of the byte tokenizer; the template's are among them
_DRAW = random.Random(0)
TEXTS = {
    "English": ENGLISH,
    "a line": "One line alone about a cat.",
    "a word": "word",
    "short sentences": "Hi. Ho. He.",
    "two characters": "日本",
    "Chinese without spaces": "本合同由甲方与乙方于签订之日起生效双方应当按照约定履行义务" * 20,
    "Thai without spaces": "สัญญานี้ทำขึ้นระหว่างผู้ให้เช่าและผู้เช่า" * 8,
    "minified JSON": json.dumps([{"id": n, "at": n * n} for n in range(80)], separators=(",", ":")),
    "encoded data": base64.b64encode(_DRAW.randbytes(1200)).decode(),
    "combining marks": "e" + "\u0301\u0323" * 400,
    "one letter": "a" * 1500,
}


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


@pytest.fixture(scope="module")
def documents(model: LoadedModel) -> dict[str, DocumentCache]:
    return {name: read(model, text) for name, text in TEXTS.items()}


def make(
    model: LoadedModel, document: DocumentCache, count: int, seed: int = 0, room: int = 1000
) -> list[Probe]:
    return ProbeMaker(document, model.prompt, room, seed).make(count)


def answer_of(model: LoadedModel, probe: Probe) -> str:
    text: str = model.tokenizer.decode(probe.answer_ids)
    return text


def same(some: list[Probe], others: list[Probe]) -> bool:
    return all(
        torch.equal(one.question_ids, other.question_ids)
        and torch.equal(one.answer_ids, other.answer_ids)
        for one, other in zip(some, others, strict=True)
    )


def test_the_same_seed_makes_the_same_probes(
    model: LoadedModel, documents: dict[str, DocumentCache]
) -> None:
    document = documents["English"]
    assert same(make(model, document, 20, seed=1), make(model, document, 20, seed=1))
    assert not same(make(model, document, 20, seed=1), make(model, document, 20, seed=2))


@pytest.mark.parametrize("name", TEXTS)
def test_probes_of_any_text_are_as_many_as_asked_for_and_of_a_bounded_length(
    name: str, model: LoadedModel, documents: dict[str, DocumentCache]
) -> None:
    probes = make(model, documents[name], 40)
    assert len(probes) == 40
    for probe in probes:
        assert 1 <= len(probe.answer_ids) <= ANSWER_TOKENS
        assert 1 <= len(probe.question_ids) <= PASSAGE_TOKENS + WORDING_TOKENS


@pytest.mark.parametrize("room", [2, 9, 30])
def test_no_probe_exceeds_the_context(
    room: int, model: LoadedModel, documents: dict[str, DocumentCache]
) -> None:
    for probe in make(model, documents["English"], 20, room=room):
        assert len(probe.question_ids) + len(probe.answer_ids) <= room


def test_answers_stand_in_the_document(
    model: LoadedModel, documents: dict[str, DocumentCache]
) -> None:
    for name in ("English", "encoded data", "minified JSON"):
        probes = make(model, documents[name], 64)
        assert all(answer_of(model, probe) in TEXTS[name] for probe in probes)


def test_probes_ask_about_many_places(
    model: LoadedModel, documents: dict[str, DocumentCache]
) -> None:
    for name in ("English", "encoded data"):
        probes = make(model, documents[name], 32)
        assert len({answer_of(model, probe) for probe in probes}) > 16


def test_a_text_of_one_line_is_asked_about_in_all_its_parts(model: LoadedModel) -> None:
    text = ENGLISH.replace(".", " ")
    probes = make(model, read(model, text), 64)
    places = [text.find(answer_of(model, probe)) / len(text) for probe in probes]
    assert min(places) < 0.2
    assert max(places) > 0.8


def test_calibration_fits_a_document_that_fills_the_context() -> None:
    """With learned positions, a probe that is too long would end in an error."""
    model = loaded(WITH_LEARNED_POSITIONS)
    document = read(model, prose(480), replace(SETTINGS, reserve_tokens=4))
    assert model.spec.context_length - document.num_tokens < 40
    assert document.curves.decode.shares
