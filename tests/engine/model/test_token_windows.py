"""Windows of a text give the tokens of the whole text, whatever the tokenizer and the text."""

import random
from typing import Any

import pytest

from common.errors import DocumentRejected
from engine.model.token_windows import TokenWindow, WindowedTokenizer
from reader import HANDBOOK
from tests.engine.model.tokenizers import NAMES, small_tokenizer

HANDBOOK_TEXT = (HANDBOOK / "handbook.md").read_text()
RNG = random.Random(3)
TEXTS = {
    "a handbook": HANDBOOK_TEXT[:12_000],
    "no blanks": "".join(RNG.choice("abcdefgh") for _ in range(6000)),
    "one letter": "a" * 5000,
    "one letter, odd": "ab" + "a" * 4999,
    "digits": "".join(RNG.choice("0123456789") for _ in range(5000)),
    "blanks": "word" + " " * 4000 + "word" + "\n" * 3000 + " \n" * 500 + "end",
    "marks": "e" + "\u0301\u0323" * 2500 + " a\u0308" * 900,
    "hangul": "\u1112\u1161\u11ab" * 1500,
    "chinese": "".join(chr(RNG.randint(0x4E00, 0x9FA5)) for _ in range(3000)),
    "emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 900,
    "brackets": "((((" * 1200 + "\r\n" * 700,
    "special tokens": "<|end|> <|document|>" * 300,
    "mixture": "".join(
        RNG.choice(["a ", "  ", "\n", "1", "23", "\u0301", "don't ", "\u4e2d", "...", "Hello"])
        for _ in range(4000)
    ),
}  # fmt: skip


def whole(tokenizer: Any, text: str) -> TokenWindow:
    encoded = tokenizer(
        text,
        add_special_tokens=False,
        split_special_tokens=True,
        return_offsets_mapping=True,
        verbose=False,
    )
    return TokenWindow(encoded["input_ids"], [tuple(span) for span in encoded["offset_mapping"]])


def joined(windowed: WindowedTokenizer, text: str) -> TokenWindow:
    parts = list(windowed.windows(text))
    return TokenWindow(
        [token for part in parts for token in part.ids],
        [span for part in parts for span in part.spans],
    )


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.parametrize("name", NAMES)
def test_windows_give_the_tokens_of_the_whole_text(name: str, text: str) -> None:
    tokenizer = small_tokenizer(name)
    for window_chars, overlap_chars in ((400, 150), (1300, 211)):
        windowed = WindowedTokenizer(tokenizer, window_chars, overlap_chars)
        assert joined(windowed, text) == whole(tokenizer, text)


def test_what_cannot_be_broken_is_refused_when_it_is_too_long() -> None:
    windowed = WindowedTokenizer(small_tokenizer("three_digits"), 400, 150, 3200)
    marks = "e" + "\u0301" * 1500
    assert joined(windowed, marks).ids == whole(small_tokenizer("three_digits"), marks).ids
    with pytest.raises(DocumentRejected, match="in a row"):
        joined(windowed, "e" + "\u0301" * 9000)


def test_windows_come_one_after_the_other() -> None:
    """A caller can stop before the whole text is tokenized."""
    seen: list[str] = []
    tokenizer = small_tokenizer("reader")

    class Noting:
        backend_tokenizer = tokenizer.backend_tokenizer

        def __call__(self, text: str, **more: Any) -> Any:
            seen.append(text)
            return tokenizer(text, **more)

    windows = WindowedTokenizer(Noting(), 400, 150).windows(HANDBOOK_TEXT)
    next(windows)
    assert len(seen) <= 2
    assert max(map(len, seen)) <= 400 + 150
