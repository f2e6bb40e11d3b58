"""Paragraphs that speak of what is asked about: they name it, and leave statements as they are."""

from random import Random

from training.data.distractors import add_distractors, mention, names_of
from training.data.facts import Chunk, Needle, Question

OIL = Needle(
    (
        Chunk("The amber pump takes Lorvik 12, as Mara Stenholt says."),
        Chunk("a | b", is_block=True),
    ),
    (
        Question("Which oil does the amber pump take?", "Lorvik 12", "single"),
        Question("What does the clerk, Mara Stenholt, say about the depth?", "Lorvik 12", "single"),
    ),
)
TEXT = "We walked to the house and sat in the garden. It was late. The dog slept by the door. " * 20


def test_names_are_what_question_and_text_share():
    assert sorted(names_of(OIL)) == ["Mara Stenholt", "the amber pump"]


def test_what_an_answer_contains_is_no_name():
    asked = Question("Who wears the amber pump?", "the old amber pump", "single")
    assert names_of(Needle(OIL.chunks, (*OIL.questions, asked))) == ["Mara Stenholt"]


def test_a_sentence_speaks_of_the_name_where_it_spoke_of_something_else():
    said = {mention("Then the dog was in the garden.", ["the pump"], Random(n)) for n in range(40)}
    assert said == {
        "Then the dog was in the garden.",
        "Then the pump was in the garden.",
        "Then the dog was in the pump.",
        "Then the pump was in the pump.",
    }


def test_paragraphs_name_things_often_and_keep_every_statement_once():
    for seed in range(20):
        chunks = add_distractors([OIL], [names_of(OIL)], TEXT, Random(seed))
        text = "\n".join(chunk.text for chunk in chunks)
        assert text.count(OIL.chunks[0].text) == 1
        assert text.count("a | b") == 1
        assert text.lower().count("the amber pump") > 5
        assert text.count("Lorvik 12") == 1


def test_without_text_or_names_chunks_stay_as_they_are():
    assert add_distractors([OIL], [names_of(OIL)], "", Random(1)) == list(OIL.chunks)
    nameless = Needle((Chunk("x = 7"),), (Question("What is x?", "7", "single"),))
    assert add_distractors([nameless], [[]], TEXT, Random(1)) == list(nameless.chunks)
