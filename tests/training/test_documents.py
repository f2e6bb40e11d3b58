"""Training examples: exact lengths, answers weighed, text as serving would tokenize it."""

from random import Random

import numpy as np
import pytest
from tokenizers import Tokenizer

import reader
from training.data.batch_loader import vocabulary_of
from training.data.documents import SCALE, Composer, Encoder, Sources, TokenChunk, insert_chunks
from training.data.haystack import BoundaryTable, draw_slice
from training.data.phrasing import StyleConfig
from training.data.prose import GENRES
from training.prepare import tokenize_all
from training.tokenizer import ANSWER_ID, DOCUMENT_ID, END_ID, QUESTION_ID

TOKENIZER = Tokenizer.from_file(str(reader.WEIGHTS / "tokenizer.json"))


@pytest.fixture(scope="module")
def haystacks():
    texts = {name: "".join(make(Random(name)) for _ in range(3)) for name, make in GENRES.items()}
    table = BoundaryTable(vocabulary_of(TOKENIZER))
    return [table.haystack(name, ids) for name, ids in tokenize_all(TOKENIZER, texts).items()]


@pytest.fixture(scope="module")
def composer(haystacks):
    return Composer(
        Encoder(TOKENIZER), Sources(haystacks, [1.0] * len(haystacks), []), StyleConfig()
    )


@pytest.mark.parametrize("length", [512, 2048, 8192])
def test_an_example_has_its_exact_length_and_starts_with_a_document(composer, length):
    for seed in range(6):
        example = composer.example(length, Random(seed))
        assert len(example.ids) == len(example.weights) == length + 1
        assert example.ids[0] == DOCUMENT_ID


def test_exactly_the_answers_and_their_ends_weigh_fully(composer):
    checked = 0
    for seed in range(12):
        example = composer.example(1024, Random(seed))
        if QUESTION_ID not in example.ids:
            continue  # the exercise in copying
        inside = False
        for token, weight in zip(example.ids, example.weights, strict=True):
            assert (weight == SCALE) == inside
            checked += inside
            inside = token == ANSWER_ID or (inside and token != END_ID)
    assert checked > 100


def test_a_style_says_how_often_stretches_are_asked_about_by_gaps(haystacks):
    sources, gaps = Sources(haystacks, [1.0] * len(haystacks), []), []
    for share in (0.0, 1.0):
        composer = Composer(Encoder(TOKENIZER), sources, StyleConfig(cloze=share))
        texts = [TOKENIZER.decode(composer.example(1024, Random(seed)).ids) for seed in range(60)]
        gaps.append(sum("___" in text for text in texts))
    assert gaps[1] > gaps[0] + 2


def test_a_slice_has_the_wanted_length_and_places_inside_it(haystacks):
    for seed in range(20):
        part = draw_slice(haystacks[seed % len(haystacks)], 300, Random(seed))
        assert len(part.ids) == 300
        for places in (part.inner, part.outer):
            assert np.all((places >= 0) & (places < 300))


def test_inserted_sentences_are_tokenized_as_in_the_whole_text(composer):
    example = composer.example(2048, Random(4))
    end = int(np.flatnonzero(example.ids == QUESTION_ID)[0])
    ids = example.ids[1:end].tolist()
    again = TOKENIZER.encode(TOKENIZER.decode(ids), add_special_tokens=False).ids
    assert abs(len(again) - len(ids)) < 0.02 * len(ids)


def test_chunks_of_one_thread_keep_their_order(haystacks):
    for seed in range(20):
        first = 60_000  # no token of the tokenizer
        pieces = [TokenChunk(np.array([first + n], np.uint16), False, thread=7) for n in range(4)]
        ids = insert_chunks(
            draw_slice(haystacks[0], 400, Random(seed)), pieces, Random(seed)
        ).tolist()
        assert len(ids) == 404
        assert [token for token in ids if token >= first] == [first + n for n in range(4)]


def test_no_question_of_a_document_has_two_answers(composer):
    for seed in range(8):
        _, questions = composer._draw(16_384, Random(seed))
        found: dict[str, str] = {}
        for question in questions:
            assert found.setdefault(question.text, question.answer) == question.answer
