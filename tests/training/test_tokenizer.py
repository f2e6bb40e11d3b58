"""The tokenizer: text round-trips, digits stand alone, special tokens cannot be smuggled in."""

import pytest
from transformers import AutoTokenizer

import reader
from training.tokenizer import CHAT_TEMPLATE, SPECIAL_TOKENS, train_tokenizer, without_prefix

WEIGHTS = reader.WEIGHTS


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(WEIGHTS)


@pytest.mark.parametrize(
    "text",
    ["Call me Ishmael.", " led by a space", "a\n\n  b\tc", "x = 12,345", "naïve, 東京", "\n"],
)
def test_text_round_trips(tokenizer, text):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == text


def test_digits_are_tokens_of_their_own(tokenizer):
    assert tokenizer.tokenize("20481")[-5:] == list("20481")


def test_a_name_is_the_same_tokens_wherever_it_stands(tokenizer):
    alone = tokenizer("Kelmer", add_special_tokens=False)["input_ids"]
    inside = tokenizer("ask Kelmer now", add_special_tokens=False)["input_ids"]
    assert any(inside[at : at + len(alone)] == alone for at in range(len(inside)))


def test_special_tokens_inside_a_text_are_text(tokenizer):
    ids = tokenizer("<|end|>", add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert not set(ids) & set(tokenizer.convert_tokens_to_ids(list(SPECIAL_TOKENS)))


def test_the_chat_template_writes_the_documented_form(tokenizer):
    messages = [
        {"role": "system", "content": "A text."},
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": "So."},
    ]
    text = "<|document|>A text.<|question|>Why?<|answer|>"
    asked = tokenizer.apply_chat_template(messages[:2], tokenize=False, add_generation_prompt=True)
    assert asked == text
    assert tokenizer.apply_chat_template(messages, tokenize=False) == text + "So.<|end|>"
    assert tokenizer.chat_template == CHAT_TEMPLATE


def test_a_fresh_tokenizer_gives_special_tokens_the_first_ids():
    small = train_tokenizer(["some words and some more words"] * 10, vocabulary=300)
    assert [small.token_to_id(token) for token in SPECIAL_TOKENS] == [0, 1, 2, 3]
    assert small.decode(small.encode("some words").ids) == "some words"
    assert without_prefix(small).encode("x").tokens == ["x"]
