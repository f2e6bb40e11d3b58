"""From tokens to text, piece by piece, without ever showing half a character."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from transformers import PreTrainedTokenizerFast

REPLACEMENT = "\ufffd"
WINDOW = 16  # tokens after which the window moves on


class IncrementalDetokenizer:
    """Turns token after token into text that only grows.

    Only a window of the last tokens is decoded for each. It begins where the text before it was
    whole, and some tokens before the new ones, as a tokenizer may treat the first token of a text
    in its own way.

    Attributes:
        text: all that was shown.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._text_of = text_decoder(tokenizer)
        self._tokens: list[int] = []
        self._start = 0  # of the window
        self._middle = 0  # of it, where the text was whole; the next window begins there
        self._shown = ""  # of the window's text
        self.text = ""

    def push(self, token: int) -> str:
        """Add a token; return the text that is certain now, "" while a character is incomplete."""
        self._tokens.append(token)
        return self._grow(keep_back=True)

    def flush(self) -> str:
        """Return what was kept back."""
        return self._grow(keep_back=False)

    def _grow(self, *, keep_back: bool) -> str:
        text = whole = self._decode(self._start)
        if keep_back:
            text = whole.rstrip(REPLACEMENT)
        if not text.startswith(self._shown):
            return ""
        piece = text[len(self._shown) :]
        self._shown = text
        self.text += piece
        if text == whole and len(self._tokens) - self._middle >= WINDOW // 2:
            self._start, self._middle = self._middle, len(self._tokens)
            self._shown = self._decode(self._start)
        return piece

    def _decode(self, start: int) -> str:
        return self._text_of(self._tokens[start:])


def text_decoder(tokenizer: Any) -> Callable[[Sequence[int]], str]:
    """Return what turns tokens into text, without special ones.

    A tokenizer of the `tokenizers` library does so itself where transformers adds nothing to it but
    a check of each token's type, which takes longer than decoding.
    """
    adds_nothing = (
        isinstance(tokenizer, PreTrainedTokenizerFast)
        and type(tokenizer).decode is PreTrainedTokenizerFast.decode
        and type(tokenizer)._decode is PreTrainedTokenizerFast._decode
        and not tokenizer.clean_up_tokenization_spaces
    )
    decode = tokenizer.backend_tokenizer.decode if adds_nothing else tokenizer.decode
    return partial(decode, skip_special_tokens=True)
