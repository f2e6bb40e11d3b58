"""Answers that repeat themselves, and those that only look like it."""

import pytest

from engine.decode.repetition import LEAST_TOKENS, RepetitionDetector
from tests.models import byte_tokenizer

TOKENIZER = byte_tokenizer()


def found_after(text: str) -> int | None:
    """Tokens (bytes) until a repetition is found; None if none is."""
    detector = RepetitionDetector()
    tokens = TOKENIZER(text)["input_ids"]
    return next((at for at, token in enumerate(tokens, 1) if detector.push(token)), None)


@pytest.mark.parametrize(
    "cycle", ["x", "no ", "the harbour of ", "Then he went home, and then he went home. "]
)
def test_a_circle_is_found(cycle: str) -> None:
    found = found_after("It begins in another way. " + cycle * 90)
    assert found is not None
    assert found - 26 <= max(LEAST_TOKENS, 5 * len(cycle)) + len(cycle)


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"{number}. Pier {number} is open. " for number in range(40)),
        "".join(f"| Mira {number} | yes | 10 |\n" for number in range(30)),
        "0x" + "0" * 64,
        "-" * 72,
        "10, " * 15,
        "Row, row, row your boat, gently down the stream. " * 2,
        "Mira, Jonas, Tove and Bettina paid 10, 10, 10 and 10 euros. " * 3,
        " ".join(map(str, range(100))),
    ],
)
def test_lists_tables_and_refrains_are_none(text: str) -> None:
    assert found_after(text) is None
