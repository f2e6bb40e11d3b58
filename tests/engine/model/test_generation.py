"""What a model's generation_config.json asks for, and what is made of it."""

from types import SimpleNamespace

import pytest
from transformers import GenerationConfig

from engine.model.generation import GREEDY, GenerationDefaults, read_generation_defaults

TOKENIZER = SimpleNamespace(eos_token_id=3)


def test_a_model_that_does_not_sample_is_greedy_whatever_else_it_says() -> None:
    config = GenerationConfig(do_sample=False, temperature=0.7, top_p=0.9, top_k=20)
    found = read_generation_defaults(config, TOKENIZER)
    assert (found.temperature, found.top_p, found.top_k, found.min_p) == (0.0, 1.0, 0, 0.0)


def test_a_model_that_samples_does_so_in_its_own_way() -> None:
    config = GenerationConfig(
        do_sample=True, temperature=0.6, top_p=0.95, top_k=20, min_p=0.1, repetition_penalty=1.05
    )
    assert read_generation_defaults(config, TOKENIZER) == GenerationDefaults(
        eos_ids=(3,), temperature=0.6, top_p=0.95, top_k=20, min_p=0.1, repetition_penalty=1.05
    )


@pytest.mark.parametrize(
    ("eos", "expected"), [(None, (3,)), (7, (7, 3)), ([7, 3, 9], (7, 3, 9)), ([3, 3], (3,))]
)
def test_every_token_that_ends_a_text_ends_an_answer(
    eos: int | list[int] | None, expected: tuple[int, ...]
) -> None:
    config = GenerationConfig(eos_token_id=eos)
    assert read_generation_defaults(config, TOKENIZER).eos_ids == expected


def test_what_is_not_applied_is_named() -> None:
    config = GenerationConfig(no_repeat_ngram_size=3, suppress_tokens=[1])
    found = read_generation_defaults(config, TOKENIZER).not_applied
    assert set(found) == {"no_repeat_ngram_size", "suppress_tokens"}
    assert GREEDY.not_applied == ()
