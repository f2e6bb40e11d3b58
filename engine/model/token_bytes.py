"""What each token of a vocabulary writes, in bytes of UTF-8, whatever the kind of tokenizer."""

import json
from typing import Any

from tokenizers.pre_tokenizers import ByteLevel

SPACE_MARK = "\u2581"  # how SentencePiece's vocabularies write a space


def token_bytes(tokenizer: Any) -> list[bytes]:
    """Return the bytes that each token writes in the middle of a text.

    A token may be a part of a character, or begin with the space before a word.

    Args:
        tokenizer: a fast tokenizer of transformers.
    Returns: by id, up to the highest one; empty for special tokens and for ids without a token.
    """
    backend = tokenizer.backend_tokenizer
    kinds = set(_kinds(None if backend.decoder is None else backend.decoder.__getstate__()))
    added = tokenizer.added_tokens_decoder
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    written = [b""] * (max(vocabulary.values(), default=-1) + 1)
    as_bytes = _byte_of_character() if "ByteLevel" in kinds else None
    for token, index in vocabulary.items():
        if index in added:
            special = added[index].special
            written[index] = b"" if special else added[index].content.encode()
        elif as_bytes is not None:
            written[index] = _from_byte_level(token, as_bytes)
        elif kinds & {"ByteFallback", "Metaspace"} or SPACE_MARK in token:
            written[index] = _from_sentence_piece(token)
        else:
            written[index] = _by_decoding(tokenizer, index)
    return written


def _kinds(state: bytes | None) -> list[str]:
    """The types of a decoder's parts."""
    if state is None:
        return []

    def inner(part: dict[str, Any]) -> list[str]:
        parts = part.get("decoders", [])
        return [part["type"], *(kind for one in parts for kind in inner(one))]

    return inner(json.loads(state))


def _byte_of_character() -> dict[str, int]:
    """From the character that stands for a byte in a byte-level vocabulary to that byte.

    Source: GPT-2's `bytes_to_unicode`: printable bytes stand for themselves, the others follow
    from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    table |= {chr(0x100 + place): byte for place, byte in enumerate(others)}
    assert table.keys() == set(ByteLevel.alphabet())
    return table


def _from_byte_level(token: str, as_bytes: dict[str, int]) -> bytes:
    found = [as_bytes.get(char) for char in token]
    return b"" if None in found else bytes(byte for byte in found if byte is not None)


def _from_sentence_piece(token: str) -> bytes:
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.replace(SPACE_MARK, " ").encode()


def _by_decoding(tokenizer: Any, index: int) -> bytes:
    """What a token adds behind another one; nothing where that cannot be told."""
    alone: str = tokenizer.decode([index], clean_up_tokenization_spaces=False)
    twice: str = tokenizer.decode([index, index], clean_up_tokenization_spaces=False)
    added = twice[len(alone) :] if twice.startswith(alone) else ""
    return b"" if "\ufffd" in added else added.encode()
