"""From tokens to text, piece by piece, without ever showing half a character."""

from typing import Any

REPLACEMENT = "\ufffd"


class IncrementalDetokenizer:
    """Turns token after token into text that only grows."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._tokens: list[int] = []
        self.text = ""

    def push(self, token: int) -> str:
        """Add a token; return the text that is certain now, "" while a character is incomplete."""
        self._tokens.append(token)
        return self._grow(keep_back=True)

    def flush(self) -> str:
        """Return what was kept back."""
        return self._grow(keep_back=False)

    def _grow(self, *, keep_back: bool) -> str:
        text = self._tokenizer.decode(self._tokens, skip_special_tokens=True)
        if keep_back:
            text = text.rstrip(REPLACEMENT)
        if not text.startswith(self.text):
            return ""
        piece = text[len(self.text) :]
        self.text = text
        return str(piece)
