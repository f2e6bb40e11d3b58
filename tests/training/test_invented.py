"""The invented documents: long enough, honest, and foreign to the training data."""

import json
import re
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from tokenizers import Tokenizer

import reader
from training import handbook, manual
from training.data import frames, wordings, words
from training.data.attributes import ATTRIBUTES
from training.data.excerpts.excerpt import excerpts
from training.data.lines import LINE_QUESTIONS
from training.data.scenes import scenes
from training.data.timetables import sorts
from training.data.wordings import REFUSAL

WEIGHTS = reader.WEIGHTS
EXCERPTS = Path(handbook.__file__).parent / "data" / "excerpts"
_BAR = re.compile(r"\|(?![^\[]*\])")  # behind a clause's verb, and not between choices
_GENERIC_WORDS = 3  # a pattern with fewer words of its own fits nearly every sentence


def document(module, file, written, sections):
    text, questions = written
    return SimpleNamespace(
        file=module.FOLDER / file,
        asked=json.loads((module.FOLDER / "questions.json").read_text()),
        text=text,
        questions=questions,
        facts=[fact for section in sections for fact in section.facts],
    )


DOCUMENTS = {
    "handbook": document(
        handbook,
        "handbook.md",
        handbook.write_handbook(),
        handbook.sections(Random(handbook.SEED)),
    ),
    "manual": document(
        manual, "manual.md", manual.write_manual(), manual.sections(Random(manual.SEED))
    ),
}
QUESTIONS = [one["question"] for each in DOCUMENTS.values() for one in each.questions]


def as_regex(pattern: str) -> re.Pattern[str]:
    escaped = re.escape(pattern)
    escaped = re.sub(r"\\\[(.*?)\\\]", lambda m: f"(?:{m[1].replace(chr(92) + '|', '|')})", escaped)
    return re.compile(re.sub(r"\\\{\w+\\\}", ".+?", escaped), re.IGNORECASE)


def own_words(pattern: str) -> int:
    return len(
        re.findall(
            r"[A-Za-z]{2,}", re.sub(r"\{\w+\}", " ", re.sub(r"\[[^\]]*\]", " choice ", pattern))
        )
    )


@cache
def training_patterns() -> list[tuple[str, re.Pattern[str]]]:
    found = [
        *wordings.STATEMENTS, *wordings.QUESTIONS, *wordings.TWO_HOP_QUESTIONS,
        *wordings.LIST_QUESTIONS, *wordings.LIST_STATEMENTS, *wordings.SAME_AS_STATEMENTS,
        *wordings.SEVERAL_KEYS_QUESTIONS, *wordings.SEVERAL_ATTRIBUTES_QUESTIONS,
        *wordings.FIRST_OF_MANY, *wordings.NEXT_OF_MANY, *frames.SUBJECT_QUESTIONS,
        *frames.SUBJECT_STATEMENTS, *frames.CONTRASTS, *frames.NEGATIVE_STATEMENTS, *LINE_QUESTIONS,
    ]  # fmt: skip
    found += composed(frames.QUESTION_FRAMES, frames.NOUN_PHRASES)
    found += composed(frames.PREDICATES, frames.NOUN_PHRASES)
    found += composed(wordings.LIST_FRAMES, wordings.LIST_PHRASES)
    for typed in (*frames.TYPED_QUESTIONS.values(), *frames.TYPED_PREDICATES.values()):
        found += composed(typed, frames.NOUN_PHRASES)
    for attribute in ATTRIBUTES:
        found += [*attribute.statements, *attribute.questions]
    for scene in scenes():
        found += [*scene.statements, *(text for text, _ in scene.questions)]
    for excerpt in excerpts(held_out=False):
        found += [*excerpt.tellings, *excerpt.unsaid, *(text for text, _ in excerpt.questions)]
    for part in (part for sort in sorts() for part in sort.parts):
        found += ["{S} " + _BAR.sub(" ", clause) for clause in part.clauses]
        found += part.questions
    return [
        (pattern, as_regex(pattern))
        for pattern in sorted(set(found))
        if own_words(pattern) >= _GENERIC_WORDS
    ]


def composed(pool: tuple[str, ...], phrases: tuple[str, ...]) -> list[str]:
    return [frames.compose(frame, phrase) for frame, phrase in product(pool, phrases)]


def fitting(text: str) -> list[str]:
    return [pattern for pattern, regex in training_patterns() if regex.fullmatch(text)]


def asked_sentences() -> list[str]:
    """The sentences that hold the answers."""
    parts = [
        (part.rstrip(".;"), fact.answer)
        for each in DOCUMENTS.values()
        for fact in each.facts
        if fact.question
        for part in re.split(r"(?<=[.;])\s+", fact.text)
    ]
    return [part for part, answer in parts if answer in part]


@pytest.fixture(params=DOCUMENTS.values(), ids=DOCUMENTS)
def invented(request):
    return request.param


def test_the_files_in_the_tree_are_what_the_generator_writes(invented):
    assert invented.file.read_text() == invented.text
    assert invented.asked == invented.questions


def test_it_is_longer_than_ten_thousand_tokens(invented):
    tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    assert len(tokenizer.encode(invented.text, add_special_tokens=False).ids) >= 10_000


def test_seven_of_eight_answers_stand_in_the_text_once_and_one_is_missing(invented):
    answers = [question["answer"] for question in invented.questions]
    assert len(answers) == 8
    assert answers.count(REFUSAL) == 1
    for answer in set(answers) - {REFUSAL}:
        assert invented.text.count(answer) == 1


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_training_wording_asks_one_of_its_questions(question):
    assert fitting(question) == []


@pytest.mark.parametrize("sentence", asked_sentences())
def test_no_training_wording_states_one_of_its_facts(sentence):
    assert fitting(sentence) == []


@pytest.mark.parametrize(
    "text",
    ["The Lorbach Foundation is led by Otto Kelmer", "I forgot the fee listed for the old mill."],
)
def test_the_disjointness_check_can_fail(text):
    assert fitting(text)


def test_its_names_are_not_in_the_training_pools():
    people = (*handbook.PEOPLE, *manual.PEOPLE)
    first_names, surnames = zip(*(name.split(" ", 1) for name in people), strict=True)
    assert not set(first_names) & set(words.FIRST_NAMES)
    made = re.compile(
        f"(?:{'|'.join(words.STARTS)})(?:{'|'.join(words.MIDDLES)})?(?:{'|'.join(words.ENDS)})"
    )
    assert [name for name in surnames if made.fullmatch(name)] == []
    pools = {*words.SITES, *words.THINGS, *words.SERVICES, *words.PROJECTS}
    assert not pools & {place.lower() for place in (*handbook.PIERS, *handbook.VESSELS)}


def test_no_excerpt_speaks_of_what_they_name():
    names = {
        *(handbook.PEOPLE + handbook.VESSELS + handbook.PIERS + manual.PEOPLE),
        "Kittiwake", "Brindlemoor", "Tarnow", "ferry", "ferries", "kiln", "kilns",
    }  # fmt: skip
    found = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b", re.IGNORECASE)
    lines = [line for file in EXCERPTS.glob("*.txt") for line in file.read_text().splitlines()]
    assert len(lines) > 10_000
    assert [line for line in lines if found.search(line)] == []
