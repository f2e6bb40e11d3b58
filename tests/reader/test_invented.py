"""The demo's handbook: long enough, honest, and foreign to the training data."""

import json
import re
from pathlib import Path
from random import Random

import pytest
from tokenizers import Tokenizer

from reader import handbook
from reader.data import wordings, words
from reader.data.attributes import ATTRIBUTES
from reader.data.lines import LINE_QUESTIONS
from reader.data.scenes import scenes

WEIGHTS = Path(handbook.__file__).parent / "weights"
TEXT, QUESTIONS = handbook.write_handbook()
_GENERIC_WORDS = 3  # a pattern with fewer words of its own fits nearly every sentence


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


def training_patterns() -> list[str]:
    found = [*wordings.STATEMENTS, *wordings.QUESTIONS, *LINE_QUESTIONS]
    for attribute in ATTRIBUTES:
        found += [*attribute.statements, *attribute.questions]
    for scene in scenes():
        found += [*scene.statements, *(text for text, _ in scene.questions)]
    return [pattern for pattern in found if own_words(pattern) >= _GENERIC_WORDS]


def asked_sentences() -> list[str]:
    """The sentences that hold the answers."""
    facts = [fact for section in handbook.sections(Random(handbook.SEED)) for fact in section.facts]
    parts = [
        (part.rstrip(".;"), fact.answer)
        for fact in facts
        if fact.question
        for part in re.split(r"(?<=[.;])\s+", fact.text)
    ]
    return [part for part, answer in parts if answer in part]


def test_the_files_in_the_tree_are_what_the_generator_writes():
    assert (handbook.FOLDER / "handbook.md").read_text() == TEXT
    assert json.loads((handbook.FOLDER / "questions.json").read_text()) == QUESTIONS


def test_it_is_longer_than_ten_thousand_tokens():
    tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    assert len(tokenizer.encode(TEXT, add_special_tokens=False).ids) >= 10_000


def test_seven_of_eight_answers_stand_in_the_text_once_and_one_is_missing():
    answers = [question["answer"] for question in QUESTIONS]
    assert len(answers) == 8
    assert answers.count(handbook.REFUSAL) == 1
    for answer in set(answers) - {handbook.REFUSAL}:
        assert answer in TEXT


@pytest.mark.parametrize("question", [one["question"] for one in QUESTIONS])
def test_no_training_wording_asks_one_of_its_questions(question):
    fitting = [pattern for pattern in training_patterns() if as_regex(pattern).fullmatch(question)]
    assert fitting == []


def test_no_training_wording_states_one_of_its_facts():
    patterns = [(pattern, as_regex(pattern)) for pattern in training_patterns()]
    fitting = [
        (pattern, sentence)
        for sentence in asked_sentences()
        for pattern, regex in patterns
        if regex.fullmatch(sentence)
    ]
    assert fitting == []


def test_the_disjointness_check_can_fail():
    sentence = "The Lorbach Foundation is led by Otto Kelmer"
    assert any(as_regex(pattern).fullmatch(sentence) for pattern in training_patterns())


def test_its_names_are_not_in_the_training_pools():
    first_names, surnames = zip(*(name.split(" ", 1) for name in handbook.PEOPLE), strict=True)
    assert not set(first_names) & set(words.FIRST_NAMES)
    made = re.compile(
        f"(?:{'|'.join(words.STARTS)})(?:{'|'.join(words.MIDDLES)})?(?:{'|'.join(words.ENDS)})"
    )
    assert [name for name in surnames if made.fullmatch(name)] == []
    pools = {*words.SITES, *words.THINGS, *words.SERVICES, *words.PROJECTS}
    assert not pools & {place.lower() for place in (*handbook.PIERS, *handbook.VESSELS)}
