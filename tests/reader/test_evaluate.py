"""The examination: scoring, intervals, documents of the asked length."""

from pathlib import Path
from random import Random

import pytest
from tokenizers import Tokenizer

import reader
from reader.data.documents import Sources
from reader.data.feed import vocabulary_of
from reader.data.haystack import BoundaryTable
from reader.data.prose import minutes
from reader.evaluate import Examiner, Score, cells, normalise, wilson
from reader.model import Reader
from reader.prepare import tokenize_all
from reader.shape import TINY

TOKENIZER = Tokenizer.from_file(str(Path(reader.__file__).parent / "weights" / "tokenizer.json"))


@pytest.fixture(scope="module")
def examiner():
    text = "".join(minutes(Random(seed)) for seed in range(12))
    table = BoundaryTable(vocabulary_of(TOKENIZER))
    haystack = table.haystack("minutes", tokenize_all(TOKENIZER, {"minutes": text})["minutes"])
    return Examiner(Reader(TINY), TOKENIZER, Sources([haystack], [1.0], []))


@pytest.mark.parametrize("cell", cells(), ids=lambda cell: cell.name)
def test_documents_have_the_length_and_hold_the_answers(examiner, cell):
    document, questions = examiner.document(cell, 6000, Random(2))
    assert len(questions) == 20
    tokens = len(TOKENIZER.encode(document, add_special_tokens=False).ids)
    assert tokens == pytest.approx(6000, rel=0.15) or cell.name.startswith(("crowd", "chain"))
    if cell.kinds[0] not in ("unanswerable", "two keys", "chain"):
        assert all(question.answer.lower() in document.lower() for question in questions)


def test_an_untrained_reader_fails_and_is_scored_so(examiner):
    score = examiner.score(cells()[0], 600, 20, seed=1)
    assert score.num_questions == 20
    assert score.num_right == 0


def test_wilson_is_the_published_interval():
    low, high = wilson(81, 263)  # Newcombe 1998, table I: 0.2553 to 0.3662
    assert (low, high) == (pytest.approx(0.2553, abs=1e-4), pytest.approx(0.3662, abs=1e-4))
    assert wilson(0, 0) == (0.0, 1.0)


def test_a_row_gives_shares():
    row = Score("single", 4096, 200, 190, 4).row()
    assert (row["exact_match"], row["refused"]) == (0.95, 0.02)


def test_case_blanks_and_the_final_stop_do_not_count():
    assert normalise(" The  Document does\nnot say. ") == normalise("the document does not say")
    assert normalise("22:25") != normalise("22:24")
