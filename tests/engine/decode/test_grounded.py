"""Whether what an answer claims stands in the document."""

import pytest
import torch

from engine.config import LookupConfig
from engine.decode.grounded import Claim, find_claims
from engine.document.budget import NO_CURVES
from engine.document.cache import DocumentCache

TEXT = (
    "The harbour office closes at 18:40. Tove  Sundaresan keeps key AX-7731 and 1,200 maps. "
    "Write to desk@harbour.example. Mira paid 27.50 euros, and 3.5 more. Mira left with NASA. "
    "Room 12 is far from the quay."
)


def claims(answer: str, *passages: tuple[int, int]) -> tuple[Claim, ...]:
    none = torch.zeros(0, dtype=torch.int64)
    document = DocumentCache(
        layers=(), ids=none, offsets=none.reshape(0, 2), text=TEXT, pages=(), num_sinks=0,
        lookup=LookupConfig(), curves=NO_CURVES,
    )  # fmt: skip
    return find_claims(answer, document, passages)


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        ("It closes at 18:40.", "number", "18:40"),
        ("the key AX-7731", "code", "AX-7731"),
        ("1200 maps", "number", "1200"),
        ("Ask Tove Sundaresan.", "name", "Tove Sundaresan"),
        ("desk@harbour.example", "code", "desk@harbour.example"),
        ("27.50", "number", "27.50"),
        ("by NASA", "name", "NASA"),
    ],
)
def test_what_stands_in_the_document_is_found_there(answer: str, kind: str, text: str) -> None:
    found = next(one for one in claims(answer) if one.text == text)
    assert (found.kind, found.is_grounded) == (kind, True)
    assert answer[found.start : found.end] == text
    there = " ".join(TEXT[found.start_char : found.end_char].split())
    assert there.replace(",", "") == text.replace(",", "")


@pytest.mark.parametrize(
    "answer", ["18:41", "AX-773", "Jonas Weber", "27.5", "2", "desk@harbour.org", "5", "Sundar"]
)
def test_what_does_not_stand_there_is_told(answer: str) -> None:
    (found,) = claims(answer)
    assert (found.num_places, found.start_char, found.end_char) == (0, None, None)
    assert not found.is_grounded


def test_the_first_word_of_a_sentence_is_no_name_if_it_is_a_word() -> None:
    assert claims("Office. Maps and more.") == ()
    assert [one.text for one in claims("Mira paid.")] == ["Mira"]
    assert claims("The document does not say.") == (), "the document has it in lower case, too"
    assert [one.text for one in claims("Mira does not say it.")] == ["Mira"]


def test_the_place_in_the_evidence_comes_first() -> None:
    second = TEXT.rindex("Mira")
    (found,) = claims("Mira", (second - 5, second + 20))
    assert (found.num_places, found.start_char) == (2, second)
