"""A chat without a document is what the model answers alone."""

import pytest
import torch

from engine.decode.sampling import Sampling
from engine.engine import Engine
from engine.model.empty_document import empty_document
from engine.model.prompt import Turn
from tests.models import ALIBI, FAMILIES, FURTHER, loaded, random_model

TURNS = (Turn("Who sold the maps?", "Ada."),)


@pytest.mark.parametrize("family", ["llama", "mistral-window", "gemma2", "gpt-oss", "bloom"])
def test_the_answer_is_the_models_own(family):
    config = (FAMILIES | FURTHER | ALIBI)[family]
    model, full = loaded(config), random_model(config)
    ids = model.prompt.encode_chat("When?", TURNS)
    wanted: list[int] = []
    for _ in range(6):
        whole = torch.cat((ids, torch.tensor(wanted, dtype=torch.int64)))
        wanted.append(int(full(input_ids=whole[None], use_cache=False).logits[0, -1].argmax()))
    with Engine(model) as engine:
        running = engine.start(
            empty_document(model),
            "When?",
            turns=TURNS,
            budget=1.0,
            sampling=Sampling(max_tokens=6, ignore_eos=True),
        )
        while not running.is_finished:
            engine.step([running])
        engine.finish(running)
    assert running.answer == wanted
    answer = running.result()
    assert answer.evidence == ()
    assert answer.usage.document_tokens == answer.usage.kv_bytes_read == 0


def test_the_prompt_is_the_templates_without_a_document():
    model = loaded(FAMILIES["llama"])
    text = model.tokenizer.decode(model.prompt.encode_chat("When?", TURNS))
    assert text == (
        "<|question|>Who sold the maps?<|answer|>Ada.<|end|><|question|>When?<|answer|>"
    )
