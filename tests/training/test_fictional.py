"""The fictional documents: long enough, honest, and foreign to the training data."""

import re
from functools import cache
from itertools import product

import pytest
from tokenizers import Tokenizer

import reader
from training.data.attributes import attributes
from training.data.excerpt_split import TRAIN, excerpts
from training.data.facts import REFUSAL
from training.data.scenes import scenes
from training.data.templates import FOLDER, template_list, template_lists, word_list
from training.data.timetables import sorts
from training.eval_set import FICTIONAL, read_fictional

DOCUMENTS = {folder.name: read_fictional(folder) for folder in FICTIONAL}
NAMES = (
    "Maren Vestergaard", "Idris Pemberton", "Saoirse Hallorann", "Callum MacAskill",
    "Anneke Lindqvist", "Odile Castellane", "Piers Trevanion", "Zofia Abernathy",
    "Merete Rautavaara", "Dafydd Penhaligon", "Ottilie Fairbairn", "Lucan Nakashima",
    "Bettina Okonjo", "Ruairi Whitcombe", "Tove Sundaresan", "Rowan Duquesne",
    "Leontine Oduya", "Ingvar Castlemaine", "Philippa Zwicker", "Benedikt Achterberg",
)  # fmt: skip
THINGS = (
    "Curlew of Skerrow", "Lady Isobel", "Sandpiper", "Northern Tern", "Grey Petrel", "Gannet Rock",
    "Skerrow Pier", "Lowgate Quay", "Inverkell Slip", "Mossdyke Landing",
)  # fmt: skip
_BAR = re.compile(r"\|(?![^\[]*\])")  # behind a timetable's verb, and not between options
_WORD = re.compile(r"[a-z]{2,}")
_GENERIC_WORDS = 3  # a template with fewer words of its own fits nearly every sentence


def as_regex(template):
    escaped = re.escape(template)
    escaped = re.sub(r"\\\[(.*?)\\\]", lambda m: f"(?:{m[1].replace(chr(92) + '|', '|')})", escaped)
    return re.compile(re.sub(r"\\\{\w+\\\}", ".+?", escaped), re.IGNORECASE)


def own_words(template):
    """Words outside of slots and choices: every text that fits has them."""
    return frozenset(_WORD.findall(re.sub(r"\{\w+\}|\[[^\]]*\]", " ", template).lower()))


@cache
def training_templates():
    """Templates that training states and asks in, with their own words."""
    found = [pattern for pool in template_lists("wordings").values() for pattern in pool]
    frames, phrases = template_lists("frames"), template_list("frames", "noun phrases")
    for pool in (*frames.values(), template_list("wordings", "list frames")):
        for frame, phrase in product(pool, phrases):
            found.append(frame.replace("{NP}", phrase).replace(",.", ".").replace(",?", "?"))
    found += template_list("assignments", "questions")
    for attribute in attributes():
        found += [*attribute.statements, *attribute.questions]
    for record in (*scenes(), *excerpts(TRAIN)):
        found += [*record.statements, *record.unanswerable, *(text for text, _ in record.questions)]
    for part in (part for sort in sorts() for part in sort.parts):
        found += ["{S} " + _BAR.sub(" ", clause) for clause in part.clauses]
        found += part.questions
    with_words = ((pattern, own_words(pattern)) for pattern in sorted(set(found)))
    # a choice counts as a word of its own
    return [
        (pattern, words)
        for pattern, words in with_words
        if len(words) + pattern.count("[") >= _GENERIC_WORDS
    ]


def fitting(text):
    """Templates of training that the text may be an instance of."""
    there = set(_WORD.findall(text.lower()))
    return [
        pattern
        for pattern, words in training_templates()
        if words <= there and as_regex(pattern).fullmatch(text)
    ]


def sentences_with_answers(document):
    answers = [one.answer for one in document.questions if one.answer != REFUSAL]
    parts = re.split(r"(?<=[.;:])\s+", document.text)
    return [part.rstrip(".;:") for part in parts for answer in answers if answer in part]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_it_is_long_and_seven_of_eight_answers_stand_in_the_text_once(name):
    document = DOCUMENTS[name]
    tokenizer = Tokenizer.from_file(str(reader.WEIGHTS / "tokenizer.json"))
    assert len(tokenizer.encode(document.text, add_special_tokens=False).ids) >= 10_000
    answers = [question.answer for question in document.questions]
    assert len(answers) == 8
    assert answers.count(REFUSAL) == 1
    assert all(document.text.count(one) == 1 for one in set(answers) - {REFUSAL})


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_training_wording_states_one_of_its_facts_or_asks_for_one(name):
    document = DOCUMENTS[name]
    told = sentences_with_answers(document)
    assert len(told) >= 7
    assert [text for text in told if fitting(text)] == []
    assert [one.text for one in document.questions if fitting(one.text)] == []


def test_the_comparison_with_training_wordings_can_fail():
    assert fitting("The Lorbach Foundation is led by Otto Kelmer")
    assert fitting("I forgot the fee listed for the old mill.")


def test_their_names_are_in_no_table_of_training():
    text = "".join(one.text for one in DOCUMENTS.values())
    assert all(name in text for name in (*NAMES, *THINGS))
    first_names, surnames = zip(*(name.split(" ", 1) for name in NAMES), strict=True)
    assert not set(first_names) & set(word_list("first names"))
    starts, middles, ends = ("|".join(word_list(one)) for one in ("starts", "middles", "ends"))
    made = re.compile(f"(?:{starts})(?:{middles})?(?:{ends})")
    assert [name for name in surnames if made.fullmatch(name)] == []
    more = ("Kittiwake", "Brindlemoor", "Tarnow", "ferry", "ferries", "kiln", "kilns")
    for file in (FOLDER / "excerpts").glob("*.txt"):
        excerpts_text = file.read_text(encoding="utf-8").lower()
        for name in map(str.lower, (*NAMES, *THINGS, *more)):
            assert name not in excerpts_text or not re.search(rf"\b{name}\b", excerpts_text)
