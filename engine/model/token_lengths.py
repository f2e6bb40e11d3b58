"""How many characters a token stands for at the most, which bounds a text's tokens from below."""

import json
from typing import Any

from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

# Canonical composition makes at most four code points into one.
MOST_COMPOSED = {"NFC": 4, "NFKC": 4, "NFD": 1, "NFKD": 1, "Prepend": 1}
# None of these leaves characters out; a `Split` does if its behaviour says so.
KEEPING = frozenset({"ByteLevel", "Digits", "Metaspace", "UnicodeScripts", "Punctuation", "Split"})
BYTE_TOKENS = frozenset(f"<0x{byte:02X}>" for byte in range(256))


def most_chars_per_token(tokenizer: Any) -> int | None:
    """Return the most characters of a text that one token can stand for.

    Args:
        tokenizer: a fast tokenizer of transformers.
    Returns: None if no such number is known, because the tokenizer may leave characters out or make
        any number of them into one token. Special tokens do not count, as they are text in a text.
    """
    backend = tokenizer.backend_tokenizer
    vocabulary = tokenizer.get_vocab()
    composed = _most_composed(_describe(backend.normalizer))
    splits = _parts(_describe(backend.pre_tokenizer), "pretokenizers")
    if composed is None or not all(map(_keeps_all, splits)):
        return None
    if not _knows_everything(backend.model, vocabulary, splits):
        return None
    added = tokenizer.added_tokens_decoder.values()
    special = {token.content for token in added if token.special}
    return composed * max(map(len, vocabulary.keys() - special))


def _describe(part: Any) -> dict[str, Any] | None:
    """Return the description of a normalizer or pre-tokenizer, as it stands in tokenizer.json."""
    return None if part is None else json.loads(part.__getstate__())


def _parts(part: dict[str, Any] | None, name: str) -> list[dict[str, Any]]:
    if part is None:
        return []
    if part["type"] != "Sequence":
        return [part]
    return [inner for one in part[name] for inner in _parts(one, name)]


def _most_composed(normalizer: dict[str, Any] | None) -> int | None:
    """Return how many characters a normalizer makes into one; None if it may leave some out."""
    most = 1
    for part in _parts(normalizer, "normalizers"):
        pattern = part.get("pattern", {}).get("String")
        if part["type"] == "Replace" and pattern and len(pattern) <= len(part["content"]):
            continue
        if part["type"] not in MOST_COMPOSED:
            return None
        most *= MOST_COMPOSED[part["type"]]
    return most


def _keeps_all(pre_tokenizer: dict[str, Any]) -> bool:
    return pre_tokenizer["type"] in KEEPING and pre_tokenizer.get("behavior") != "Removed"


def _knows_everything(
    model: Any, vocabulary: dict[str, int], splits: list[dict[str, Any]]
) -> bool:  # fmt: skip
    """Whether every character becomes at least one token of the vocabulary, and none is unknown."""
    if not isinstance(model, BPE):
        return False
    if any(split["type"] == "ByteLevel" for split in splits):
        return vocabulary.keys() >= set(ByteLevel.alphabet())
    return model.byte_fallback and vocabulary.keys() >= BYTE_TOKENS
