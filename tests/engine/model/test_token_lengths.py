"""The bound holds for texts that a tokenizer makes as few tokens of as it can."""

import pytest

from engine.model.token_lengths import most_chars_per_token
from tests.engine.model.test_token_windows import TEXTS, whole
from tests.engine.model.tokenizers import NAMES, small_tokenizer

BOUNDED = {"reader", "byte_level", "three_digits", "several_splits", "without_words"}


@pytest.mark.parametrize("name", NAMES)
def test_no_token_stands_for_more_characters(name: str) -> None:
    tokenizer = small_tokenizer(name)
    most = most_chars_per_token(tokenizer)
    assert (most is not None) == (name in BOUNDED)
    if most is None:
        return
    special = set(tokenizer.all_special_tokens)
    longest = max(tokenizer.get_vocab().keys() - special, key=len)
    texts = [*TEXTS.values(), longest * 50, tokenizer.decode([tokenizer.vocab[longest]]) * 50]
    for text in texts:
        assert len(text) <= most * len(whole(tokenizer, text).ids)


def test_a_tokenizer_that_leaves_characters_out_has_no_bound() -> None:
    tokenizer = small_tokenizer("word_piece")
    assert whole(tokenizer, " " * 10_000).ids == []
    assert most_chars_per_token(tokenizer) is None
