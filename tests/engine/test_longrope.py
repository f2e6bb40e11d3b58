"""LongRoPE: a document's length chooses its factors, and they hold for every question about it."""

import copy
import json
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import Phi3Config

from engine.attend.question import open_question
from engine.decode.sampling import Sampling
from engine.document.artifact import pack, unpack
from engine.document.budget import EXACT
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.attention import forward
from engine.model.loader import LoadedModel
from tests.models import FAMILIES, answer, loaded, prose, random_model, read

BOUNDARY = 256
CONFIG = FAMILIES["phi3-longrope"]
QUESTION, ANSWER = "Who keeps the lamps?", "Mira does!"
TOLERANCE, NOTICEABLE = 1e-4, 1e-2


@cache
def tiny() -> LoadedModel:
    return loaded(CONFIG)


def pinned_config(kind: str) -> Phi3Config:
    """A configuration under which transformers takes one kind of factors for every length."""
    config = copy.deepcopy(CONFIG)
    rope = dict(config.rope_parameters)
    rotary: Any = tiny().model.get_submodule("model.rotary_emb")
    rope |= {
        "attention_factor": float(rotary.attention_scaling),
        "short_factor": rope[f"{kind}_factor"],
        "long_factor": rope[f"{kind}_factor"],
    }
    config.rope_parameters = rope
    return config


def reference(config: Phi3Config, ids: Tensor, num: int) -> Tensor:
    with torch.inference_mode():
        logits: Tensor = random_model(config)(input_ids=ids[None], use_cache=False).logits[0]
    return logits[-num:]


def ours(model: LoadedModel, document: DocumentCache) -> tuple[Tensor, Tensor]:
    """Logits after the question and each token of its answer, and all ids of the two."""
    pinned = model.with_rope(document.choices.rope).model
    state = open_question(document, EXACT)
    passes = [model.prompt.encode_question(QUESTION), *model.prompt.encode_answer(ANSWER).split(1)]
    logits = [forward(pinned, ids, state.position, state)[-1] for ids in passes]
    return torch.stack(logits), torch.cat(passes)


@pytest.mark.parametrize(
    ("num_chars", "kind"),
    [(100, "short"), (BOUNDARY - 1, "short"), (BOUNDARY, "long"), (600, "long")],
)
def test_the_documents_length_chooses_and_is_recorded(num_chars: int, kind: str) -> None:
    document = read(tiny(), prose(num_chars))
    assert document.num_tokens == num_chars + 1
    assert document.choices.rope == kind
    manifest, files = pack(document, "float32")
    stored = unpack(
        json.loads(json.dumps(manifest)), files, device=tiny().device, dtype=torch.float32
    )
    assert stored.choices == document.choices


@pytest.mark.parametrize(
    ("num_chars", "kind"), [(100, "short"), (240, "short"), (BOUNDARY - 1, "short"), (600, "long")]
)
def test_a_question_beyond_the_boundary_keeps_the_documents_factors(
    num_chars: int, kind: str
) -> None:
    """The second and third document lie below the boundary, and end beyond it with the question."""
    document = read(tiny(), prose(num_chars))
    logits, asked = ours(tiny(), document)
    ids = torch.cat((document.ids, asked))
    wanted = reference(pinned_config(kind), ids, len(logits))
    assert float((logits - wanted).abs().max()) < TOLERANCE
    other = reference(pinned_config("long" if kind == "short" else "short"), ids, len(logits))
    assert float((logits - other).abs().max()) > NOTICEABLE


@pytest.mark.parametrize("num_chars", [100, 600])
def test_where_transformers_crosses_no_boundary_answers_are_its_own(num_chars: int) -> None:
    model = tiny()
    document = read(model, prose(num_chars))
    *_, found = answer(model, document, QUESTION, budget=EXACT, sampling=Sampling(max_tokens=12))
    ids = torch.cat((document.ids, model.prompt.encode_question(QUESTION)))
    with torch.inference_mode():
        generated = random_model(CONFIG).generate(
            ids[None], attention_mask=torch.ones_like(ids[None]), max_new_tokens=12, do_sample=False
        )
    text = model.tokenizer.decode(generated[0, len(ids) :], skip_special_tokens=True)
    assert found.text == text != ""


def test_short_and_long_documents_are_answered_side_by_side() -> None:
    model, sampling = tiny(), Sampling(max_tokens=6)
    documents = [read(model, prose(num_chars)) for num_chars in (100, 600)]
    alone = []
    for document in documents:
        *_, last = answer(model, document, QUESTION, budget=EXACT, sampling=sampling)
        alone.append(last.text)
    with Engine(model) as engine:
        running = [
            engine.start(document, QUESTION, budget=EXACT, sampling=sampling)
            for document in documents
        ]
        while not all(one.is_finished for one in running):
            for one in running:
                if not one.is_finished:
                    engine.step([one])
        for one in running:
            one.flush()
            engine.finish(one)
    assert [one.result().text for one in running] == alone


def test_a_window_as_long_as_the_context_is_none() -> None:
    assert [layer.window for layer in tiny().spec.layers] == [None, None]
